//go:build linux

// Package host is main memory as a device: segments are anonymous mappings, and virtual segments are ranges of
// addresses that get pages of a memory file. The memory that the allocator hands out can be read and written, by
// package unsafe or through a C library. There are no streams: the processor has done everything when a call returns.
package host

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/alloc"
)

// granularity is CUDA's, so that policies behave as they do there; it is a multiple of any page size of Linux.
const granularity = 2 << 20

// Device is an alloc.Driver with virtual memory.
type Device struct {
	mu       sync.Mutex
	capacity int64
	used     int64
	maps     map[alloc.Ptr][]byte // what Alloc and Reserve mapped
	file     int                  // of the pages behind virtual ranges; -1 until the first Map
	end      int64                // of the file
	holes    []int64              // offsets of pages in the file that are free
	pages    map[alloc.Ptr]int64  // offset of the page behind an address
}

// New makes a device that hands out at most so many bytes; 0: as many as the machine has.
func New(capacity int64) (*Device, error) {
	if capacity == 0 {
		var info unix.Sysinfo_t
		if err := unix.Sysinfo(&info); err != nil {
			return nil, fmt.Errorf("host memory: sysinfo: %w", err)
		}
		capacity = int64(info.Totalram) * int64(info.Unit)
	}
	return &Device{capacity: capacity, maps: map[alloc.Ptr][]byte{}, pages: map[alloc.Ptr]int64{}, file: -1}, nil
}

func (d *Device) take(size int64) error {
	if size <= 0 || size > d.capacity-d.used {
		return fmt.Errorf("host memory: %w: %d bytes of %d are left", alloc.ErrNoMemory, d.capacity-d.used, d.capacity)
	}
	d.used += size
	return nil
}

func (d *Device) mmap(size int64, prot int) (alloc.Ptr, error) {
	b, err := unix.Mmap(-1, 0, int(size), prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		if errors.Is(err, unix.ENOMEM) {
			err = fmt.Errorf("%w: %w", alloc.ErrNoMemory, err)
		}
		return 0, fmt.Errorf("host memory: map %d bytes: %w", size, err)
	}
	p := alloc.Ptr(uintptr(unsafe.Pointer(&b[0])))
	d.maps[p] = b
	return p, nil
}

// Alloc implements alloc.Driver.
func (d *Device) Alloc(size int64) (alloc.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.take(size); err != nil {
		return 0, err
	}
	p, err := d.mmap(size, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		d.used -= size
	}
	return p, err
}

// Free implements alloc.Driver.
func (d *Device) Free(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.unmap(p, size); err != nil {
		return err
	}
	d.used -= size
	return nil
}

func (d *Device) unmap(p alloc.Ptr, size int64) error {
	b, ok := d.maps[p]
	if !ok || int64(len(b)) != size {
		return fmt.Errorf("host memory: no mapping of %d bytes at %#x", size, uint64(p))
	}
	delete(d.maps, p)
	if err := unix.Munmap(b); err != nil {
		return fmt.Errorf("host memory: unmap %#x: %w", uint64(p), err)
	}
	return nil
}

// MemInfo implements alloc.Driver: the capacity is the device's total, and memory that is handed out is not free.
func (d *Device) MemInfo() (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.capacity - d.used, d.capacity, nil
}

// Granularity implements alloc.VirtualMemory.
func (d *Device) Granularity() int64 { return granularity }

// Reserve implements alloc.VirtualMemory: the addresses can't be accessed.
func (d *Device) Reserve(size int64) (alloc.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mmap(size, unix.PROT_NONE)
}

// Release implements alloc.VirtualMemory.
func (d *Device) Release(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unmap(p, size)
}

// Map implements alloc.VirtualMemory.
func (d *Device) Map(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.take(size); err != nil {
		return err
	}
	for done := int64(0); done < size; done += granularity {
		if err := d.mapPage(p + alloc.Ptr(done)); err != nil {
			d.used -= size
			for done -= granularity; done >= 0; done -= granularity {
				err = errors.Join(err, d.unmapPage(p+alloc.Ptr(done)))
			}
			return err
		}
	}
	return nil
}

func (d *Device) mapPage(p alloc.Ptr) error {
	if d.file < 0 {
		fd, err := unix.MemfdCreate("memgauge", unix.MFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("host memory: memfd: %w", err)
		}
		d.file = fd
	}
	at := d.end
	if n := len(d.holes); n > 0 {
		at, d.holes = d.holes[n-1], d.holes[:n-1]
	} else {
		if err := unix.Ftruncate(d.file, d.end+granularity); err != nil {
			return fmt.Errorf("host memory: grow the memory file: %w", err)
		}
		d.end += granularity
	}
	_, err := unix.MmapPtr(d.file, at, pointer(p), granularity, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		d.holes = append(d.holes, at)
		return fmt.Errorf("host memory: map a page at %#x: %w", uint64(p), err)
	}
	d.pages[p] = at
	return nil
}

// Unmap implements alloc.VirtualMemory.
func (d *Device) Unmap(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for done := int64(0); done < size; done += granularity {
		if err := d.unmapPage(p + alloc.Ptr(done)); err != nil {
			return err
		}
		d.used -= granularity
	}
	return nil
}

// unmapPage replaces the page by inaccessible addresses, and gives its memory back to the system.
func (d *Device) unmapPage(p alloc.Ptr) error {
	at, ok := d.pages[p]
	if !ok {
		return fmt.Errorf("host memory: no page at %#x", uint64(p))
	}
	_, err := unix.MmapPtr(-1, 0, pointer(p), granularity, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("host memory: unmap the page at %#x: %w", uint64(p), err)
	}
	delete(d.pages, p)
	d.holes = append(d.holes, at)
	if err := unix.Fallocate(d.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, granularity); err != nil {
		return fmt.Errorf("host memory: give back a page: %w", err)
	}
	return nil
}

// Close gives everything back to the system. Nothing that was handed out may be used any more.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for p, b := range d.maps {
		errs = append(errs, d.unmap(p, int64(len(b))))
	}
	if d.file >= 0 {
		errs = append(errs, unix.Close(d.file))
		d.file = -1
	}
	d.used = 0
	return errors.Join(errs...)
}

// Bytes returns the memory of a block as a slice. It is valid as long as the block is.
func Bytes(p alloc.Ptr, size int64) []byte {
	return unsafe.Slice((*byte)(pointer(p)), size)
}

// pointer converts an address into a pointer. It is not memory of Go's, so the garbage collector ignores it.
func pointer(p alloc.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
