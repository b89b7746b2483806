// Package wire owns the bytes that cross a process border: the ring that an observed process writes into a
// memory-mapped file, and the frames of the agent's control socket. One table (Spec) says where each field lies; the Go
// and Python codecs, the text dump, docs/formats/ring.md and the tests are all derived from it. The package opens no
// file and no socket of its own accord, and knows nothing of SQL.
package wire

//go:generate go run ./gen -py ../../../python/memgauge/_agent/record/_spec.py -go codec_gen.go -md ../../../docs/formats/ring-fields.md
