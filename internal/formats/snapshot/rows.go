package snapshot

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// grown is memory outside of Go's heap that grows without being copied: the garbage collector neither counts it nor
// keeps twice of it while it doubles. Pages are used when they are written first.
type grown struct{ mem []byte }

// resize makes room for n bytes.
func (g *grown) resize(n int) (err error) {
	if g.mem == nil {
		g.mem, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	} else {
		g.mem, err = unix.Mremap(g.mem, n, unix.MREMAP_MAYMOVE)
	}
	if err != nil {
		return fmt.Errorf("reserve %d bytes: %w", n, err)
	}
	return nil
}

func (g *grown) free() {
	if g.mem != nil {
		unix.Munmap(g.mem)
		g.mem = nil
	}
}

// as shows the memory as n values.
func as[T any](g *grown, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(g.mem))), n)
}

// rows is the memory of the columns.
type rows struct {
	cap                                                   int
	action, device, addr, size, time, stream, stack, pool grown
	context, metadata, thread                             grown
}

// rowBytes is what one row takes.
const rowBytes = 1 + 2 + 8 + 8 + 8 + 2 + 4 + 2 + 4 + 4

// firstRows is how many rows are reserved at once; it doubles from there.
const firstRows = 1 << 16

// resize makes room for n rows; c's columns keep their length.
func (r *rows) resize(c *Columns, n int) error {
	for _, col := range []struct {
		g     *grown
		width int
	}{
		{&r.action, 1}, {&r.device, 2}, {&r.addr, 8}, {&r.size, 8}, {&r.time, 8}, {&r.stream, 2}, {&r.stack, 4},
		{&r.pool, 2},
		{&r.context, 4}, {&r.metadata, 4},
	} {
		if err := col.g.resize(n * col.width); err != nil {
			return err
		}
	}
	if c.Thread != nil {
		if err := r.thread.resize(n * 8); err != nil {
			return err
		}
	}
	r.cap = n
	r.show(c, n)
	return nil
}

// show gives the columns n rows.
func (r *rows) show(c *Columns, n int) {
	c.Action, c.Device, c.Addr = as[uint8](&r.action, n), as[uint16](&r.device, n), as[uint64](&r.addr, n)
	c.Size, c.Time, c.Stream = as[int64](&r.size, n), as[int64](&r.time, n), as[uint16](&r.stream, n)
	c.Stack, c.Pool = as[uint32](&r.stack, n), as[uint16](&r.pool, n)
	c.Context, c.Metadata = as[uint32](&r.context, n), as[uint32](&r.metadata, n)
	if c.Thread != nil {
		c.Thread = as[uint64](&r.thread, n)
	}
}

func (r *rows) free() {
	for _, g := range []*grown{
		&r.action, &r.device, &r.addr, &r.size, &r.time, &r.stream, &r.stack, &r.pool, &r.context, &r.metadata,
		&r.thread,
	} {
		g.free()
	}
}
