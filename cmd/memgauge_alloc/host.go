package main

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/units"
)

// host is the machine's own memory as a device: pages from mmap.
type host struct {
	total int64
	mu    struct {
		sync.Mutex
		used  int64
		pages map[alloc.Ptr][]byte
	}
}

func newHost() (*host, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fmt.Errorf("size of the host's memory: %w", err)
	}
	h := &host{total: int64(info.Totalram) * int64(info.Unit)}
	h.mu.pages = map[alloc.Ptr][]byte{}
	return h, nil
}

func (h *host) Alloc(size int64) (alloc.Ptr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if size > h.total-h.mu.used {
		return 0, fmt.Errorf("map %s: %w", units.Bytes(size), alloc.ErrNoMemory)
	}
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, fmt.Errorf("map %s: %w: %w", units.Bytes(size), alloc.ErrNoMemory, os.NewSyscallError("mmap", err))
	}
	p := alloc.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	h.mu.pages[p] = b
	h.mu.used += size
	return p, nil
}

func (h *host) Free(p alloc.Ptr, size int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, ok := h.mu.pages[p]
	if !ok || int64(len(b)) != size {
		return fmt.Errorf("unmap %d bytes at %#x: not mapped so", size, uint64(p))
	}
	delete(h.mu.pages, p)
	h.mu.used -= size
	return os.NewSyscallError("munmap", unix.Munmap(b))
}

func (h *host) MemInfo() (free, total int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total - h.mu.used, h.total, nil
}
