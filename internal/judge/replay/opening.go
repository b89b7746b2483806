package replay

import (
	"fmt"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// open places what the program held when the history began. PyTorch's rules get the very segments that PyTorch had, as
// far as the file describes them. The other policies never had those segments, so for them the blocks are allocated in
// the order of their addresses, and what remains goes back to the driver. A burst of segment_free at the beginning is
// already applied then.
func (p *player) open(t *snapshot.Trace, o *alloc.Options) error {
	for _, b := range t.Live {
		if b.Requested <= 0 { // PyTorch asks its allocator for none
			return fmt.Errorf("a block of %d bytes at %#x", b.Requested, b.Addr)
		}
	}
	if p.segments {
		if segments := segmentsOf(t, o); segments != nil {
			return p.restore(segments, t)
		}
	}
	if ranges := p.ranges(t, o); ranges != nil {
		return p.restoreRanges(ranges, t)
	}
	for i := range t.Live {
		b := &t.Live[i]
		ptr, err := p.a.Alloc(b.Requested, alloc.Stream(b.Stream))
		if err != nil {
			return err
		}
		p.held[i] = ptr
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

// segmentsOf returns what PyTorch had at first: what the file says, else what follows from its events; nil if nothing
// follows.
func segmentsOf(t *snapshot.Trace, o *alloc.Options) []alloc.Segment {
	if segments := known(t, o); segments != nil {
		return segments
	}
	if t.Recorded != nil && t.Recorded.SegmentOps > 0 {
		return inferred(t)
	}
	return nil
}

func (p *player) restore(segments []alloc.Segment, t *snapshot.Trace) error {
	if err := p.a.Restore(segments); err != nil {
		return err
	}
	for i := range t.Live {
		p.held[i] = alloc.Ptr(t.Live[i].Addr)
	}
	for i := range p.ops {
		o := &p.ops[i]
		if int(o.event) >= p.opening || o.kind != opRelease {
			break
		}
		if _, err := p.a.ReleaseSegment(o.addr); err != nil {
			return err
		}
	}
	p.driver.begin()
	return nil
}

// known returns the segments that the file describes, with what was live in them; nil if it describes none, or
// contradicts itself.
func known(t *snapshot.Trace, o *alloc.Options) []alloc.Segment {
	var out []alloc.Segment
	live := t.Live // both are ordered by address
	for _, s := range t.Segments {
		if s.Size <= 0 {
			return nil
		}
		g := alloc.Segment{Addr: s.Addr, Size: s.Size, Stream: alloc.Stream(s.Stream), Large: s.Size != smallSegment}
		least := int64(0)
		// a remainder of up to 1 MiB is not split off a large block, and no free block of the large pool is smaller
		if g.Large {
			least = smallBlock
		}
		var ok bool
		if live, ok = fill(&g, live, o, least); !ok {
			return nil
		}
		out = append(out, g)
	}
	if len(live) > 0 {
		return nil
	}
	return out
}

// fill puts the live blocks that lie in a segment into it and returns those after it. A rest of up to least bytes
// behind a block belongs to the block. Not ok: the blocks contradict the segment.
func fill(g *alloc.Segment, live []snapshot.LiveBlock, o *alloc.Options, least int64) (rest []snapshot.LiveBlock,
	ok bool) {
	end := g.Addr + uint64(g.Size)
	for len(live) > 0 && live[0].Addr < end {
		b := alloc.Block{Addr: live[0].Addr, Size: o.BlockSize(live[0].Requested), Requested: live[0].Requested,
			State: alloc.BlockLive}
		next := end
		if len(live) > 1 {
			next = min(end, live[1].Addr)
		}
		if b.Addr < g.Addr || b.Requested > int64(next-b.Addr) {
			return nil, false
		}
		if behind := int64(next-b.Addr) - b.Size; behind < 0 || behind <= least {
			b.Size += behind
		}
		g.Blocks = append(g.Blocks, b)
		live = live[1:]
	}
	return live, true
}

// PyTorch's constants, in bytes (c10/core/AllocatorConfig.h): the largest block of the small pool, what a request from
// 1 to 10 MiB requests from the driver, and the segments that contain only small blocks.
const (
	smallBlock   = 1 << 20
	largeSegment = 20 << 20
	smallSegment = 2 << 20
)

// eventKinds are the kinds of events in a history that reveal something about the segments.
var eventKinds = map[uint8]alloc.EventKind{
	snapshot.IsAlloc: alloc.EventAlloc, snapshot.IsFreeCompleted: alloc.EventFreed,
	snapshot.IsSegmentAlloc: alloc.EventSegmentAlloc, snapshot.IsSegmentFree: alloc.EventSegmentFree,
}

// inferred returns the segments that follow from the events; nil if the events contradict each other.
func inferred(t *snapshot.Trace) []alloc.Segment {
	live := make([]alloc.Event, 0, len(t.Live))
	for _, b := range t.Live {
		live = append(live, alloc.Event{Addr: b.Addr, Size: b.Requested, Stream: alloc.Stream(b.Stream)})
	}
	history := make([]alloc.Event, 0, t.Events.Len())
	for i := range t.Events.Len() {
		e := t.Events.At(i)
		segment := e.Action == snapshot.IsSegmentAlloc || e.Action == snapshot.IsSegmentFree
		if kind, ok := eventKinds[e.Action]; ok && (e.Size > 0 || !segment) {
			history = append(history, alloc.Event{Kind: kind, Addr: e.Addr, Size: e.Size,
				Stream: alloc.Stream(e.Stream)})
		}
	}
	segments := alloc.InferSegments(live, history, t.Reserved)
	if !disjoint(segments, len(live)) { // the history frees segments where others, or what was live, can't have been
		return nil
	}
	return segments
}

// disjoint reports whether no segment, and no block in one, overlaps the next, and exactly so many blocks lie in them.
func disjoint(segments []alloc.Segment, blocks int) bool {
	end := uint64(0)
	for i := range segments {
		g := &segments[i]
		if g.Addr < end || !apart(g) {
			return false
		}
		end = g.Addr + uint64(g.Size)
		blocks -= len(g.Blocks)
	}
	return blocks == 0
}

// apart reports whether a segment's blocks lie in it, one behind the other.
func apart(g *alloc.Segment) bool {
	at := g.Addr
	for _, b := range g.Blocks {
		if b.Addr < at {
			return false
		}
		at = b.Addr + uint64(b.Size)
	}
	return at <= g.Addr+uint64(g.Size)
}
