// Package ingest turns the rings of a session into rows. It owns the rings directory from the reader's side: it finds
// rings, reads each from its cursor to its head, derives what a record alone doesn't say (order, durations,
// differences, peaks), hands batches to a Sink, and removes a ring once its process is gone and all of it is stored.
//
// It guarantees that a record counts exactly once: a batch carries the positions that it brings the rings to, so that
// rows and positions become durable together. A new Ingester reads what a ring still holds of the past to be in the
// state in which the last one stopped, and makes the same rows whenever it starts. What can't be had (overwritten,
// damaged, of an unknown kind) becomes a Drop row with its place. A damaged ring never keeps others from being read. It
// never writes into a ring and never makes its process wait.
//
// It starts no goroutine and knows nothing of SQL, sockets or sessions.
package ingest
