// Package pages owns memory outside of Go's heap: the garbage collector neither counts it nor keeps twice of it while
// it doubles. It grows in place, and is taken from the kernel in huge pages where there are such. A page is used when it
// is first written. It knows nothing of what is kept in it.
package pages

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// huge is the size of a huge page, in bytes. Six million events, written page by page of 4 KiB, would take 100,000 page
// faults: a third of a second.
const huge = 2 << 20

// Memory is a piece of memory. The zero value has none. Free gives it back.
type Memory struct {
	// Most is the size that it will not exceed, or hardly, in bytes: so much address space is reserved, so that growing
	// up to it moves nothing. Without it, or where there is not so much of it, growing moves pages.
	Most int

	all      []byte // what is mapped
	mem      []byte // what can be used of it
	reserved bool   // all has room behind mem
}

// Len is how many bytes there is room for.
func (m *Memory) Len() int { return len(m.mem) }

// Grow makes room for n bytes. What it holds stays, but may move. New bytes are 0.
func (m *Memory) Grow(n int) (err error) {
	switch {
	case n <= len(m.mem):
		return nil
	case m.all == nil && n <= m.Most && m.reserve(), m.reserved && n <= cap(m.mem):
		err = m.extend(n)
	case m.all == nil:
		m.all, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		m.mem = m.all
	case m.reserved:
		err = m.move(n)
	default:
		var all []byte
		if all, err = unix.Mremap(m.all, n, unix.MREMAP_MAYMOVE); err == nil {
			m.all, m.mem = all, all
		}
	}
	if err != nil {
		return fmt.Errorf("reserve %d bytes: %w", n, err)
	}
	return nil
}

// reserve takes address space. Without success there is none: a limit (ulimit -v) counts it.
func (m *Memory) reserve() bool {
	all, err := unix.Mmap(-1, 0, m.Most+huge, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return false
	}
	toHuge := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all))) & (huge - 1))
	m.all, m.mem, m.reserved = all, all[toHuge:][:0], true
	return true
}

// extend makes more of what is reserved usable, and asks for huge pages behind the first one: what is small stays small.
func (m *Memory) extend(n int) error {
	if err := unix.Mprotect(m.mem[:n], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	m.mem = m.mem[:n]
	if n >= 2*huge {
		_ = unix.Madvise(m.mem[huge:], unix.MADV_HUGEPAGE) // a kernel without them has the pages that it has
	}
	return nil
}

// move copies what has outgrown its reservation. Mremap can't: parts of it differ in what they prefer.
func (m *Memory) move(n int) error {
	to, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	copy(to, m.mem)
	m.Free()
	m.all, m.mem = to, to
	return nil
}

// Free gives the memory back; nothing of it may be used after that.
func (m *Memory) Free() {
	if m.all != nil {
		_ = unix.Munmap(m.all) // fails only for what is not mapped
		m.all, m.mem, m.reserved = nil, nil, false
	}
}

// As shows the first bytes as n values.
func As[T any](m *Memory, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(m.mem))), n)
}
