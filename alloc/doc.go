// Package alloc is a caching allocator for device memory, and by the same code a simulator of one: it owns segments got
// from a Driver, the blocks that tile them, exact statistics at each instant, a bounded ring of events, and what is
// said when memory runs out. It runs without a device (package fake), on host memory (package host) and on CUDA
// (package cuda), by PyTorch's rules to the byte or by ones that waste less. It uses no cgo and starts no goroutine,
// and it never writes to the memory that it manages. docs/allocator.md tells how it works.
package alloc
