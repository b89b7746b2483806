// Package ingest turns the rings of a session into rows. It owns the rings directory from the reader's side: it finds
// rings, reads each from its cursor to its head, derives what a record alone doesn't say (order, durations,
// differences, peaks), hands batches to a Sink, and removes a ring once its process is gone and all of it is stored.
//
// It guarantees that a record counts exactly once: a batch contains the new positions in the rings, so that rows and
// positions become durable together. A new Ingester reads the records that a ring still holds once more to restore the
// state of the last one, and makes the same rows whenever it starts. Records that can't be read (overwritten, damaged,
// of an unknown kind) become a Drop row with their place. A damaged ring doesn't keep others from being read. The
// package never writes into a ring and never makes its process wait.
//
// It starts no goroutine and knows nothing of SQL, sockets or sessions.
package ingest
