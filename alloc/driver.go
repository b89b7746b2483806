package alloc

import "errors"

// Ptr is an address in a device's memory. 0 is no address.
type Ptr uint64

// Stream names a queue of device work. Memory that is freed on a stream may be reused on the same stream at once,
// because the device runs the queued work in order. Use on another stream must be reported with RecordStream.
type Stream uint64

// ErrNoMemory is wrapped by a Driver's errors when the device is full: the allocator then releases its cache and tries
// again. Any other error of a driver is returned to the caller at once.
var ErrNoMemory = errors.New("device out of memory")

// Driver is where device memory comes from. The allocator calls it from several goroutines, but never two at a time.
type Driver interface {
	// Alloc returns size bytes, at an address that is a multiple of 512. The error wraps ErrNoMemory when there are
	// none.
	Alloc(size int64) (Ptr, error)
	// Free gives back what Alloc returned, with the size that was requested.
	Free(p Ptr, size int64) error
	// MemInfo returns the device's free and total bytes, as other processes leave them.
	MemInfo() (free, total int64, err error)
}

// VirtualMemory is a Driver that can reserve addresses independently of memory. The policy vmm and expandable segments
// need it.
type VirtualMemory interface {
	// Granularity divides the sizes and addresses of the other methods, in bytes.
	Granularity() int64
	// Reserve reserves size bytes of addresses, without memory behind them.
	Reserve(size int64) (Ptr, error)
	// Release gives addresses back; nothing may be mapped there.
	Release(p Ptr, size int64) error
	// Map puts new memory behind [p, p+size). The error wraps ErrNoMemory when there is none; then nothing is mapped.
	Map(p Ptr, size int64) error
	// Unmap gives the memory behind [p, p+size) back to the device. No device work may use it any more.
	Unmap(p Ptr, size int64) error
}

// Mark is a place in a stream's queue: an event of CUDA's.
type Mark uint64

// Streams is a Driver that has streams. Without it a freed block is free at once, whatever streams were recorded on it.
type Streams interface {
	// Record puts a mark at the end of the stream's queue.
	Record(s Stream) (Mark, error)
	// Query reports whether the device has passed the mark.
	Query(m Mark) (bool, error)
	// Wait blocks until the device has passed the mark.
	Wait(m Mark) error
	// Forget frees the mark.
	Forget(m Mark) error
	// WaitAll blocks until the device has done all queued work: memory is unmapped only after that.
	WaitAll() error
}

// Capturer is a Driver that must know when work may be captured (a CUDA graph), because some of its calls would spoil
// the capture.
type Capturer interface {
	Capturing(on bool)
}

// Adopter is a Driver that can be told about memory which it gave out before, at an address of the caller's choice. A
// simulation that starts in the middle of a program needs it.
type Adopter interface {
	Adopt(p Ptr, size int64) error
}

// VirtualAdopter is an Adopter with virtual memory: it marks addresses as reserved, into which Map then puts memory.
type VirtualAdopter interface {
	AdoptRange(p Ptr, size int64) error
}
