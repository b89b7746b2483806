package snapshot

import (
	"context"
	"fmt"
	"io"
)

// WriteColumns writes what WritePickle does, from columns: stacks, frames and texts that the columns name by number are
// written once. It ends when ctx does.
func WriteColumns(ctx context.Context, w io.Writer, c *Columns) error {
	p := &columnPickler{
		pickler: pickler{w: &calledOff{w, ctx}, texts: map[string]uint32{}},
		c:       c, stackMemo: make([]uint32, c.Stacks()), frameMemo: make([]uint32, c.Frames()),
	}
	p.raw(0x80, 4)
	p.dict(func() {
		devices, host := p.segments()
		p.key("segments")
		p.list(len(devices), func(i int) { p.segment(devices[i]) })
		p.key("device_traces")
		traces, hostTrace := p.traces()
		p.list(len(traces), func(i int) {
			p.list(traces[i].To-traces[i].From, func(j int) { p.event(traces[i].From + j) })
		})
		p.key("allocator_settings")
		p.dict(func() { p.settings(c.Settings) })
		p.key("external_annotations")
		p.list(len(c.Annotations), func(i int) { p.annotation(c.Annotations[i]) })
		if len(host) > 0 || hostTrace != (Rows{}) {
			p.key("host_segments")
			p.list(len(host), func(i int) { p.segment(host[i]) })
			p.key("host_traces")
			p.list(hostTrace.To-hostTrace.From, func(i int) { p.event(hostTrace.From + i) })
		}
	})
	p.raw('.')
	if p.flush(); p.err != nil {
		return fmt.Errorf("write snapshot: %w", p.err)
	}
	return nil
}

// calledOff is a writer that fails once its context has ended.
type calledOff struct {
	io.Writer
	ctx context.Context
}

func (w *calledOff) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(b)
}

type columnPickler struct {
	pickler
	c *Columns
	// The number in the pickle's memo, and one: 0 is not yet written.
	stackMemo, frameMemo []uint32
}

// isHost says whether a device is pinned host memory, which has keys of its own in a snapshot.
func (p *columnPickler) isHost(device int) bool { return p.c.DeviceNames[device] == PinnedHost }

// traces are the rows of each device, by its number, and those of pinned host memory.
func (p *columnPickler) traces() (devices []Rows, host Rows) {
	for _, r := range p.c.Rows {
		if p.isHost(r.Device) {
			host = r
			continue
		}
		for len(devices) <= r.Device {
			devices = append(devices, Rows{})
		}
		devices[r.Device] = r
	}
	return devices, host
}

// segments are those of the devices, and those of pinned host memory, which PyTorch gives the device -1.
func (p *columnPickler) segments() (devices, host []*SegmentRow) {
	for i := range p.c.Segments {
		g := &p.c.Segments[i]
		if p.isHost(g.Device) {
			of := *g
			of.Device = onHost
			host = append(host, &of)
			continue
		}
		devices = append(devices, g)
	}
	return devices, host
}

func (p *columnPickler) event(i int) {
	c := p.c
	p.raw('}', '(')
	p.pairText("action", c.Actions[c.Action[i]])
	if c.Action[i] == IsOOM {
		p.pairInt("device_free", int64(c.Addr[i]))
	} else {
		p.pairUint("addr", c.Addr[i])
	}
	p.pairInt("size", c.Size[i])
	p.pairUint("stream", c.Streams[c.Stream[i]])
	p.pairInt("time_us", c.Time[i])
	if c.Thread != nil && c.Thread[i] != 0 {
		p.pairUint("thread", c.Thread[i])
	}
	if c.Context[i] != NoText {
		p.pairText("compile_context", c.Text(c.Context[i]))
	}
	if c.Metadata[i] != NoText {
		p.pairText("user_metadata", c.Text(c.Metadata[i]))
	}
	if pool := c.Pools[c.Pool[i]]; pool != ([2]int64{}) {
		p.key("pool_id")
		p.pair(pool)
	}
	p.key("frames")
	p.stackOf(c.Stack[i])
	p.raw('u')
}

// pair writes a tuple of two.
func (p *pickler) pair(v [2]int64) {
	p.int(v[0])
	p.int(v[1])
	p.raw(0x86) // TUPLE2
}

func (p *columnPickler) segment(g *SegmentRow) {
	s := p.c.segment(*g)
	p.dict(func() {
		p.segmentFields(&s)
		p.key("frames")
		p.stackOf(g.Stack)
		p.key("blocks")
		p.list(g.To-g.From, func(i int) {
			b := &p.c.Blocks[g.From+i]
			p.dict(func() {
				p.blockFields(&Block{Address: b.Address, Size: b.Size, Requested: b.Requested, State: b.State})
				p.key("frames")
				p.stackOf(b.Stack)
			})
		})
	})
}

// stackOf writes a stack by its number in the columns.
func (p *columnPickler) stackOf(id uint32) {
	frames := p.c.StackFrames(id)
	if len(frames) == 0 {
		p.raw(']')
		return
	}
	if at := p.stackMemo[id]; at != 0 {
		p.recall(at - 1)
		return
	}
	p.list(len(frames), func(i int) { p.frameOf(frames[i]) })
	p.stackMemo[id] = p.memoize() + 1
}

func (p *columnPickler) frameOf(id uint32) {
	if at := p.frameMemo[id]; at != 0 {
		p.recall(at - 1)
		return
	}
	f := p.c.Frame(id)
	p.dict(func() {
		p.pairText("name", f.Name)
		p.pairText("filename", f.File)
		p.pairInt("line", int64(f.Line))
	})
	p.frameMemo[id] = p.memoize() + 1
}
