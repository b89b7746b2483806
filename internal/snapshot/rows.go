package snapshot

import "github.com/memgauge/memgauge/internal/pages"

// rows is the memory of the columns.
type rows struct {
	cap                                                   int
	action, device, addr, size, time, stream, stack, pool pages.Memory
	context, metadata, thread                             pages.Memory
}

// rowBytes is what one row takes.
const rowBytes = 1 + 2 + 8 + 8 + 8 + 2 + 4 + 2 + 4 + 4

// firstRows is how many rows there is room for at once. From there it grows by a quarter, in place.
const firstRows = 1 << 16

// mostRows is how many rows have address space: some 20 GB of pickle. More are moved.
const mostRows = 100 << 20

// grow makes room for n rows; c's columns keep their length.
func (r *rows) grow(c *Columns, n int) error {
	for _, col := range []struct {
		mem   *pages.Memory
		width int
	}{
		{&r.action, 1}, {&r.device, 2}, {&r.addr, 8}, {&r.size, 8}, {&r.time, 8}, {&r.stream, 2}, {&r.stack, 4},
		{&r.pool, 2},
		{&r.context, 4}, {&r.metadata, 4},
	} {
		col.mem.Most = mostRows * col.width
		if err := col.mem.Grow(n * col.width); err != nil {
			return err
		}
	}
	if c.Thread != nil {
		if err := r.thread.Grow(n * 8); err != nil {
			return err
		}
	}
	r.cap = n
	r.show(c, n)
	return nil
}

// show gives the columns n rows.
func (r *rows) show(c *Columns, n int) {
	c.Action, c.Device, c.Addr = pages.As[uint8](&r.action, n), pages.As[uint16](&r.device, n), pages.As[uint64](&r.addr, n)
	c.Size, c.Time, c.Stream = pages.As[int64](&r.size, n), pages.As[int64](&r.time, n), pages.As[uint16](&r.stream, n)
	c.Stack, c.Pool = pages.As[uint32](&r.stack, n), pages.As[uint16](&r.pool, n)
	c.Context, c.Metadata = pages.As[uint32](&r.context, n), pages.As[uint32](&r.metadata, n)
	if c.Thread != nil {
		c.Thread = pages.As[uint64](&r.thread, n)
	}
}

func (r *rows) free() {
	for _, m := range []*pages.Memory{
		&r.action, &r.device, &r.addr, &r.size, &r.time, &r.stream, &r.stack, &r.pool, &r.context, &r.metadata,
		&r.thread,
	} {
		m.Free()
	}
}
