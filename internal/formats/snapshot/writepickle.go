package snapshot

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// WritePickle writes what torch.cuda.memory._dump_snapshot() would have: a pickle (protocol 4, Python 3.4 and newer) of
// plain dicts and lists that PyTorch's viewers (torch.cuda._memory_viz, pytorch.org/memory_viz, mosaic) read. Keys,
// stacks and frames are written once.
func WritePickle(w io.Writer, s *Snapshot) error {
	p := &pickler{w: w, texts: map[string]uint32{}, stacks: map[stackKey]uint32{}, frames: map[Frame]uint32{}}
	p.raw(0x80, 4)
	p.dict(func() {
		p.key("segments")
		p.list(len(s.Segments), func(i int) { p.segment(&s.Segments[i]) })
		p.key("device_traces")
		p.list(len(s.Traces), func(i int) {
			p.list(len(s.Traces[i]), func(j int) { p.event(&s.Traces[i][j]) })
		})
		p.key("allocator_settings")
		p.dict(func() {
			p.settings(s.Settings)
		})
		p.key("external_annotations")
		p.list(len(s.Annotations), func(i int) { p.annotation(s.Annotations[i]) })
	})
	p.raw('.')
	if p.flush(); p.err != nil {
		return fmt.Errorf("write snapshot: %w", p.err)
	}
	return nil
}

// chunk is how much is written at once, in bytes.
const chunk = 1 << 16

// stackKey is the identity of a stack.
type stackKey struct {
	first *Frame
	len   int
}

// pickler collects opcodes and writes them in chunks.
type pickler struct {
	w      io.Writer
	buf    []byte
	err    error // of the first write that failed
	memo   uint32
	texts  map[string]uint32
	stacks map[stackKey]uint32 // stacks that are shared in memory are shared in the file
	frames map[Frame]uint32
}

func (p *pickler) raw(b ...byte) { p.buf = append(p.buf, b...) }

func (p *pickler) flush() {
	if p.err == nil {
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

// memoize numbers the value that was written last.
func (p *pickler) memoize() uint32 {
	p.raw(0x94)
	p.memo++
	return p.memo - 1
}

func (p *pickler) recall(i uint32) {
	if i < 256 {
		p.raw('h', byte(i))
		return
	}
	p.raw('j')
	p.buf = binary.LittleEndian.AppendUint32(p.buf, i)
}

// dict writes the pairs that fill leaves.
func (p *pickler) dict(fill func()) {
	p.raw('}', '(')
	fill()
	p.raw('u')
}

func (p *pickler) list(n int, item func(i int)) {
	p.raw(']')
	if n == 0 {
		return
	}
	p.raw('(')
	for i := 0; i < n && p.err == nil; i++ { // nobody waits for events that can't be written
		item(i)
		if len(p.buf) >= chunk {
			p.flush()
		}
	}
	p.raw('e')
}

// key writes a text that comes often.
func (p *pickler) key(s string) {
	if i, ok := p.texts[s]; ok {
		p.recall(i)
		return
	}
	p.text(s)
	p.texts[s] = p.memoize()
}

func (p *pickler) text(s string) {
	if len(s) < 256 {
		p.raw(0x8c, byte(len(s)))
	} else {
		p.raw('X')
		p.buf = binary.LittleEndian.AppendUint32(p.buf, uint32(len(s)))
	}
	p.buf = append(p.buf, s...)
}

func (p *pickler) int(n int64) {
	switch {
	case n >= 0 && n < 1<<8:
		p.raw('K', byte(n))
	case n >= 0 && n < 1<<16:
		p.raw('M', byte(n), byte(n>>8))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		p.raw('J')
		p.buf = binary.LittleEndian.AppendUint32(p.buf, uint32(n))
	default:
		p.raw(0x8a, 8)
		p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(n))
	}
}

func (p *pickler) uint(n uint64) {
	if n <= math.MaxInt64 {
		p.int(int64(n))
		return
	}
	p.raw(0x8a, 9) // a ninth byte of 0 keeps it positive
	p.buf = append(binary.LittleEndian.AppendUint64(p.buf, n), 0)
}

func (p *pickler) bool(b bool) {
	if b {
		p.raw(0x88)
	} else {
		p.raw(0x89)
	}
}

func (p *pickler) settings(all []Setting) {
	for _, set := range all {
		p.key(set.Name)
		p.setting(set.Value)
	}
}

func (p *pickler) setting(v any) {
	switch v := v.(type) {
	case string:
		p.text(v)
	case int64:
		p.int(v)
	case float64:
		p.raw('G')
		p.buf = binary.BigEndian.AppendUint64(p.buf, math.Float64bits(v))
	case bool:
		p.bool(v)
	case []Setting:
		p.dict(func() { p.settings(v) })
	default:
		p.raw('N')
	}
}

func (p *pickler) pairInt(key string, n int64)   { p.key(key); p.int(n) }
func (p *pickler) pairUint(key string, n uint64) { p.key(key); p.uint(n) }
func (p *pickler) pairText(key, s string)        { p.key(key); p.key(s) }

func (p *pickler) segment(g *Segment) {
	p.dict(func() {
		p.segmentFields(g)
		p.key("frames")
		p.stack(g.Frames)
		p.key("blocks")
		p.list(len(g.Blocks), func(i int) { p.block(&g.Blocks[i]) })
	})
}

// segmentFields writes what a segment has of its own.
func (p *pickler) segmentFields(g *Segment) {
	p.pairInt("device", int64(g.Device))
	p.pairUint("address", g.Address)
	p.pairInt("total_size", g.Size)
	p.pairInt("allocated_size", g.Allocated)
	p.pairInt("active_size", g.Active)
	p.pairInt("requested_size", g.Requested)
	p.pairUint("stream", g.Stream)
	p.pairText("segment_type", g.Kind)
	p.key("segment_pool_id")
	p.pair(g.Pool)
	p.key("is_expandable")
	p.bool(g.Expandable)
}

func (p *pickler) block(b *Block) {
	p.dict(func() {
		p.blockFields(b)
		p.key("frames")
		p.stack(b.Frames)
	})
}

func (p *pickler) blockFields(b *Block) {
	p.pairUint("address", b.Address)
	p.pairInt("size", b.Size)
	p.pairInt("requested_size", b.Requested)
	p.pairText("state", string(b.State))
}

func (p *pickler) event(e *Event) {
	p.dict(func() {
		p.pairText("action", string(e.Action))
		if e.Action == OOM {
			p.pairInt("device_free", e.DeviceFree)
		} else {
			p.pairUint("addr", e.Addr)
		}
		p.pairInt("size", e.Size)
		p.pairUint("stream", e.Stream)
		p.pairInt("time_us", e.Time)
		if e.Thread != 0 {
			p.pairUint("thread", e.Thread)
		}
		if e.Context != "" {
			p.pairText("compile_context", e.Context)
		}
		p.pairText("user_metadata", e.Metadata)
		p.key("frames")
		p.stack(e.Frames)
	})
}

func (p *pickler) annotation(a Annotation) {
	p.dict(func() {
		p.pairText("stage", a.Stage)
		p.pairText("name", a.Name)
		p.pairInt("device", int64(a.Device))
		p.pairInt("time_us", a.Time)
	})
}

func (p *pickler) stack(frames []Frame) {
	if len(frames) == 0 {
		p.raw(']')
		return
	}
	if i, ok := p.stacks[stackKey{&frames[0], len(frames)}]; ok {
		p.recall(i)
		return
	}
	p.list(len(frames), func(i int) { p.frame(frames[i]) })
	p.stacks[stackKey{&frames[0], len(frames)}] = p.memoize()
}

func (p *pickler) frame(f Frame) {
	if i, ok := p.frames[f]; ok {
		p.recall(i)
		return
	}
	p.dict(func() {
		p.pairText("name", f.Name)
		p.pairText("filename", f.File)
		p.pairInt("line", int64(f.Line))
	})
	p.frames[f] = p.memoize()
}
