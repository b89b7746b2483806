package replay

import (
	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/snapshot"
)

// open places what the program held when the history began. PyTorch's rules get the very segments that PyTorch had, as far as
// the file tells; the other policies never had those segments, so for them the blocks are allocated in the order of their
// addresses, and what that leaves over goes back to the driver.
func (p *player) open(t *snapshot.Trace, o alloc.Options) error {
	if (o.Policy == alloc.Torch || o.Policy == "") && !o.ExpandableSegments {
		if segments := segmentsOf(t); segments != nil {
			return p.restore(segments)
		}
	}
	for _, b := range t.Live {
		ptr, err := p.a.Alloc(b.Requested, alloc.Stream(b.Stream))
		if err != nil {
			return err
		}
		p.held[b.Addr] = ptr
	}
	if err := p.empty(); err != nil {
		return err
	}
	p.driver.begin()
	return nil
}

// empty gives back what is cached.
func (p *player) empty() error {
	if p.driver.reserved == 0 {
		return nil
	}
	_, err := p.a.EmptyCache()
	return err
}

// segmentsOf is what PyTorch had at first: what the file says, else what follows from its events; nil where nothing does.
func segmentsOf(t *snapshot.Trace) []alloc.Segment {
	if segments := known(t); segments != nil {
		return segments
	}
	if t.Recorded != nil && t.Recorded.SegmentOps > 0 {
		return inferred(t)
	}
	return nil
}

func (p *player) restore(segments []alloc.Segment) error {
	if err := p.a.Restore(segments); err != nil {
		return err
	}
	for _, g := range segments {
		for _, b := range g.Blocks {
			p.held[b.Addr] = alloc.Ptr(b.Addr)
		}
		p.driver.reserved += g.Size
	}
	p.driver.begin()
	return nil
}

// known are the segments that the file tells of, with what was live in them; nil where it doesn't, or where it contradicts
// itself.
func known(t *snapshot.Trace) []alloc.Segment {
	var out []alloc.Segment
	live := t.Live // both are ordered by address
	for _, s := range t.Segments {
		g := alloc.Segment{Addr: s.Addr, Size: s.Size, Stream: alloc.Stream(s.Stream), Large: s.Size != smallSegment}
		for len(live) > 0 && live[0].Addr < s.Addr+uint64(s.Size) {
			size := (live[0].Requested + minBlock - 1) / minBlock * minBlock
			if live[0].Addr < s.Addr || live[0].Addr+uint64(size) > s.Addr+uint64(s.Size) {
				return nil
			}
			g.Blocks = append(g.Blocks, alloc.Block{Addr: live[0].Addr, Size: size, Requested: live[0].Requested, State: alloc.BlockLive})
			live = live[1:]
		}
		out = append(out, g)
	}
	if len(live) > 0 {
		return nil
	}
	return out
}

// PyTorch's constants, in bytes (c10/cuda/CUDACachingAllocator.cpp): the unit of blocks, and the segments that only small
// blocks lie in.
const (
	minBlock     = 512
	smallSegment = 2 << 20
)

// eventKinds are what of a history tells about the segments.
var eventKinds = map[snapshot.Action]alloc.EventKind{
	snapshot.Alloc: alloc.EventAlloc, snapshot.FreeCompleted: alloc.EventFreed,
	snapshot.SegmentAlloc: alloc.EventSegmentAlloc, snapshot.SegmentFree: alloc.EventSegmentFree,
}

func inferred(t *snapshot.Trace) []alloc.Segment {
	live := make([]alloc.Event, 0, len(t.Live))
	for _, b := range t.Live {
		live = append(live, alloc.Event{Addr: b.Addr, Size: b.Requested, Stream: alloc.Stream(b.Stream)})
	}
	history := make([]alloc.Event, 0, len(t.Events))
	for _, e := range t.Events {
		if kind, ok := eventKinds[e.Action]; ok {
			history = append(history, alloc.Event{Kind: kind, Addr: e.Addr, Size: e.Size, Stream: alloc.Stream(e.Stream)})
		}
	}
	return alloc.InferSegments(live, history, t.Reserved)
}
