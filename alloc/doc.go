// Package alloc is a caching allocator for device memory. With the same code it is a simulator of one. It owns segments
// from a Driver, the blocks that tile them, exact statistics at each instant, a bounded ring of events, and the report
// when memory runs out. It runs without a device (package fake), on host memory (package host) and on CUDA (package
// cuda). It follows PyTorch's rules to the byte, or rules that waste less. It uses no cgo and starts no goroutine, and
// it never writes to the memory that it manages. docs/allocator.md describes how it works.
package alloc
