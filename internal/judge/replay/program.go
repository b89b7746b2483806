package replay

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// program is a history prepared for many replays. Addresses have become numbers of slots, so that a replay looks
// nothing up. And memory that the recorded allocator gave back is classified by the reason.
type program struct {
	ops     []op
	streams []uint64
	slots   int   // of allocations that were live at once; the first ones are the opening's
	left    []int // slots that the program holds at the end and did not at first, by address
	gone    []int // slots of the opening that are free at the end, by address
	peak    int64 // the most bytes that the program held at once
	// the size that the device can't have exceeded, or it would not have been full; 0: the history was never short of
	// memory
	limit   int64
	opening int // events that belong to the opening: a burst of segment_free
	lacking Lacking
	top     uint64

	patience time.Duration // processor time of a replay, beside what its operations have
	spent    atomic.Int64  // processor time that its replays have taken, in ns
}

// op is one step of a program, 32 bytes.
type op struct {
	addr   uint64 // of a segment
	size   int64
	event  uint32
	slot   uint32 // of an allocation or a free …
	stream uint16
	kind   opKind
}

type opKind uint8

const (
	opAlloc   opKind = iota
	opFree           //
	opReserve        // the recorded allocator got a segment
	opRelease        // … gave one back
	opEmpty          // … gave back all that it could because the program requested it: torch.cuda.empty_cache()
	opPress          // … or because the device was full
)

// maxStreams bounds the streams of a program; further streams of a history share the last one's number. PyTorch makes
// 32 for each priority and device.
const maxStreams = 1 << 16

func newProgram(t *snapshot.Trace, collects bool) *program {
	p := &program{patience: maxTime, opening: t.Events.Burst(), ops: make([]op, 0, t.Events.Len()+1)}
	b := builder{program: p, held: make(map[uint64]slotOf, len(t.Live)), numbers: map[uint64]uint16{},
		lastStream: ^uint64(0)}
	for _, live := range t.Live {
		b.held[live.Addr] = slotOf{uint32(p.slots), live.Requested}
		p.slots++
		b.now += live.Requested
		p.peak = max(p.peak, b.now)
		p.top = max(p.top, live.Addr+uint64(live.Requested))
	}
	b.atFirst = p.slots
	for _, g := range t.Segments {
		p.top = max(p.top, g.Addr+uint64(g.Size))
	}
	for _, live := range t.Live {
		b.number(live.Stream)
	}
	levels := newLevels(t, collects)
	for i := range t.Events.Len() {
		b.add(i, &t.Events, levels)
	}
	b.finish(t)
	p.limit = levels.limit
	return p
}

// slotOf is where an allocation is kept while it lives.
type slotOf struct {
	slot uint32
	size int64
}

type builder struct {
	*program
	held       map[uint64]slotOf
	free       []uint32
	atFirst    int
	now        int64
	numbers    map[uint64]uint16
	lastStream uint64
	lastNumber uint16
}

func (b *builder) add(i int, events *snapshot.History, levels *levels) {
	e := events.At(i)
	switch e.Action {
	case snapshot.IsAlloc:
		if b.release(i, e.Addr) {
			b.lacking.Frees++
		}
		slot := uint32(b.slots)
		if n := len(b.free); n > 0 {
			slot, b.free = b.free[n-1], b.free[:n-1]
		} else {
			b.slots++
		}
		b.held[e.Addr] = slotOf{slot, e.Size}
		b.now += e.Size
		b.peak = max(b.peak, b.now)
		b.ops = append(b.ops, op{size: e.Size, event: uint32(i), slot: slot, stream: b.number(e.Stream), kind: opAlloc})
	case snapshot.IsFreeCompleted:
		if !b.release(i, e.Addr) { // of what was allocated before the history began, and the file doesn't say so
			b.lacking.Allocations++
		}
	case snapshot.IsSegmentAlloc, snapshot.IsSegmentMap:
		levels.change(e.Size)
		b.segment(opReserve, i, e)
	case snapshot.IsSegmentFree, snapshot.IsSegmentUnmap:
		levels.change(-e.Size)
		b.segment(opRelease, i, e)
		if i < b.opening {
			return
		}
		if kind, ends := levels.why(events, i); ends {
			b.ops = append(b.ops, op{event: uint32(i), kind: kind})
		}
	}
}

func (b *builder) segment(kind opKind, i int, e snapshot.Step) {
	if e.Size <= 0 { // no driver gives or takes that
		return
	}
	b.top = max(b.top, e.Addr+uint64(e.Size))
	b.ops = append(b.ops, op{addr: e.Addr, size: e.Size, event: uint32(i), stream: b.number(e.Stream), kind: kind})
}

// release frees what lies at an address; false if nothing is known to.
func (b *builder) release(i int, addr uint64) bool {
	h, ok := b.held[addr]
	if !ok {
		return false
	}
	delete(b.held, addr)
	b.now -= h.size
	if int(h.slot) >= b.atFirst { // the opening's slots are reserved for it: see player.goBack
		b.free = append(b.free, h.slot)
	} else {
		b.gone = append(b.gone, int(h.slot))
	}
	b.ops = append(b.ops, op{event: uint32(i), slot: h.slot, kind: opFree})
	return true
}

func (b *builder) number(stream uint64) uint16 {
	if stream == b.lastStream {
		return b.lastNumber
	}
	n, ok := b.numbers[stream]
	if !ok {
		if len(b.streams) < maxStreams {
			b.streams = append(b.streams, stream)
		}
		n = uint16(len(b.streams) - 1)
		b.numbers[stream] = n
	}
	b.lastStream, b.lastNumber = stream, n
	return n
}

// finish records what is different at the end.
func (b *builder) finish(t *snapshot.Trace) {
	type place struct {
		addr uint64
		slot int
	}
	var left []place
	for addr, h := range b.held {
		if int(h.slot) >= b.atFirst {
			left = append(left, place{addr, int(h.slot)})
		}
	}
	slices.SortFunc(left, func(x, y place) int { return cmp.Compare(x.addr, y.addr) })
	for _, l := range left {
		b.left = append(b.left, l.slot)
	}
	slices.Sort(b.gone) // the opening's slots are in the order of its addresses
}

// levels follows what the recorded allocator had reserved, to find out why it gave memory back. PyTorch gives back all
// that is idle in two cases: the program calls empty_cache; or the driver has no more memory, and then a segment_alloc
// follows at once. A segment_alloc may follow the first case as well. The level distinguishes them: a device that held
// more at some other time was not full.
type levels struct {
	now, before int64 // before: when the run of segment_free began
	highest     int64
	limit       int64
	inRun       bool
	collects    bool // the recorded allocator gave old segments back by itself: garbage_collection_threshold
}

func newLevels(t *snapshot.Trace, collects bool) *levels {
	l := &levels{now: t.Reserved, collects: collects}
	if t.Recorded != nil {
		l.highest = t.Recorded.Peak
	}
	return l
}

func (l *levels) change(bytes int64) {
	if bytes > 0 {
		l.inRun = false
	} else if !l.inRun {
		l.inRun, l.before = true, l.now
	}
	l.now += bytes
}

// maxRetry is how long the driver may take to give a segment after the cache was released for it, in µs: a cudaMalloc
// takes up to some ms. After a longer time, the program continued by itself.
const maxRetry = 100_000

// why returns the reason of a run of segment_free that ends with event i; not ends: the run continues.
func (l *levels) why(events *snapshot.History, i int) (kind opKind, ends bool) {
	if i+1 < events.Len() {
		switch next := events.At(i + 1); next.Action {
		case snapshot.IsSegmentFree, snapshot.IsSegmentUnmap:
			return 0, false
		case snapshot.IsSegmentAlloc, snapshot.IsSegmentMap:
			asked := l.before + next.Size
			if asked > l.highest && next.Time-events.Time[i] <= maxRetry {
				if l.limit == 0 || asked < l.limit {
					l.limit = asked
				}
				l.inRun = false
				return opPress, true
			}
			if l.collects {
				return opPress, true
			}
		case snapshot.IsOOM:
			l.inRun = false
			return opPress, true
		}
	}
	l.inRun = false
	return opEmpty, true
}
