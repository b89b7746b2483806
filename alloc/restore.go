package alloc

import (
	"cmp"
	"fmt"
	"slices"
)

// Restore makes a new allocator begin with these segments, at these addresses, as if it had got them before. Their
// blocks that are not free are live, the rest is free. A simulation that begins in the middle of a program needs it;
// the driver must be an Adopter. Restored blocks count in the gauges, but as neither allocations nor hits or misses.
func (a *Allocator) Restore(from []Segment) error {
	driver, ok := a.drv.(Adopter)
	if !ok || a.r.virtual || !a.r.cached {
		return fmt.Errorf("restore segments: %w take them, or the policy %s has none", ErrUnsupported, a.r.policy)
	}
	for _, seg := range from {
		s, err := a.shardFor(owner{stream: seg.Stream})
		if err != nil {
			return fmt.Errorf("restore segment %#x: %w", seg.Addr, err)
		}
		if err := checkSegment(&seg); err != nil {
			return fmt.Errorf("restore segment %#x: %w", seg.Addr, err)
		}
		if err := driver.Adopt(Ptr(seg.Addr), seg.Size); err != nil {
			return fmt.Errorf("restore segment %#x: %w", seg.Addr, err)
		}
		s.mu.Lock()
		a.enter(s)
		a.restoreSegment(s, &seg)
		a.mu.Unlock()
		a.finish(s)
	}
	a.ResetStats()
	return nil
}

// ReleaseSegment gives one segment back to the driver if nothing in it is in use, and reports whether it did. A
// simulation that follows what a recorded allocator gave back needs it.
func (a *Allocator) ReleaseSegment(addr uint64) (bool, error) {
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	for _, s := range *a.shards.Load() {
		for i := range s.segs.at {
			seg := &s.segs.at[i]
			if !seg.used || seg.addr != addr || seg.virtual {
				continue
			}
			if id := seg.first; s.whole(id) && s.blocks.at[id].state == free {
				err := a.releaseBlock(s, id, true)
				a.deal()
				return err == nil, err
			}
			return false, nil
		}
	}
	return false, nil
}

func checkSegment(seg *Segment) error {
	end := seg.Addr
	for _, b := range seg.Blocks {
		if b.Addr < end || b.Size <= 0 || b.Addr+uint64(b.Size) > seg.Addr+uint64(seg.Size) {
			return fmt.Errorf("block of %d bytes at %#x overlaps what is before it or the segment's end", b.Size,
				b.Addr)
		}
		if b.State != BlockFree && (b.Requested <= 0 || b.Requested > b.Size) {
			return fmt.Errorf("block of %d bytes at %#x serves a request of %d", b.Size, b.Addr, b.Requested)
		}
		end = b.Addr + uint64(b.Size)
	}
	return nil
}

func (a *Allocator) restoreSegment(s *shard, seg *Segment) {
	p := s.poolOf(seg.Large)
	id := a.adopt(s, p, seg.Addr, seg.Size)
	before := s.total
	s.restoreBlocks(p, id, seg.Blocks)
	s.settleGrowth(p)
	s.total = before
}

// restoreBlocks cuts a block, which is in no list, into live ones and the free ones between them.
func (s *shard) restoreBlocks(p *pool, id blockID, blocks []Block) {
	for _, b := range blocks {
		if b.State == BlockFree {
			continue
		}
		if gap := int64(b.Addr - s.blocks.at[id].addr); gap > 0 {
			s.cut(id, gap, free)
			p.insert(s.blocks.at, id)
			s.addSplit(p, gap)
			id = s.blocks.at[id].next
		}
		rest := s.blocks.at[id].size - b.Size
		if rest > 0 {
			s.cut(id, b.Size, free)
		}
		s.own(p, id, b.Requested)
		s.blocks.at[id].stack = b.Stack
		if rest == 0 {
			return
		}
		id = s.blocks.at[id].next
	}
	p.insert(s.blocks.at, id)
	if !s.whole(id) {
		s.addSplit(p, s.blocks.at[id].size)
	}
}

// VirtualRange is a range of addresses of one stream and pool, parts of which have memory.
type VirtualRange struct {
	Addr   uint64
	Size   int64
	Stream Stream
	Large  bool
	Runs   []Segment // by address, no two of them neighbours
}

// RestoreVirtual is Restore for a policy of virtual segments. The driver must be a VirtualAdopter.
func (a *Allocator) RestoreVirtual(r *VirtualRange) error {
	driver, ok := a.drv.(VirtualAdopter)
	if !ok || !a.r.virtual {
		return fmt.Errorf("restore addresses: %w take them, or the policy %s has none", ErrUnsupported, a.r.policy)
	}
	s, err := a.shardFor(owner{stream: r.Stream})
	if err != nil {
		return fmt.Errorf("restore addresses %#x: %w", r.Addr, err)
	}
	if err := driver.AdoptRange(Ptr(r.Addr), r.Size); err != nil {
		return fmt.Errorf("restore addresses %#x: %w", r.Addr, err)
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		err := checkSegment(run)
		if err == nil {
			err = a.virtual.Map(Ptr(run.Addr), run.Size)
		}
		if err != nil {
			return fmt.Errorf("restore memory at %#x: %w", run.Addr, err)
		}
	}
	s.mu.Lock()
	a.enter(s)
	a.restoreRange(s, r)
	a.mu.Unlock()
	a.finish(s)
	a.ResetStats()
	return nil
}

func (a *Allocator) restoreRange(s *shard, r *VirtualRange) {
	p := s.poolOf(r.Large)
	before := s.total
	id := s.addSegment(p, r.Addr, r.Size, true)
	a.dir.add(r.Addr, r.Size, s.num)
	for i := range r.Runs {
		run := &r.Runs[i]
		if gap := int64(run.Addr - s.blocks.at[id].addr); gap > 0 {
			s.cut(id, gap, unmapped)
			p.insertUnmapped(s.blocks.at, id)
			id = s.blocks.at[id].next
		}
		if s.blocks.at[id].size > run.Size {
			s.cut(id, run.Size, unmapped)
		}
		here := id
		id = s.blocks.at[id].next
		s.blocks.at[here].state = free
		s.segs.at[s.blocks.at[here].seg].mapped += run.Size
		a.reserve(s, p, run.Size)
		s.restoreBlocks(p, here, run.Blocks)
	}
	if id != 0 {
		p.insertUnmapped(s.blocks.at, id)
	}
	s.settleGrowth(p)
	s.total = before
}

// addSplit counts a free block that shares its segment; blocks of virtual segments don't count, since they can be given
// back.
func (s *shard) addSplit(p *pool, size int64) {
	if s.r.virtual {
		return
	}
	s.add(splitBlocks, scopeOf(p.large), 1)
	s.add(splitBytes, scopeOf(p.large), size)
}

// InferSegments works out the segments that PyTorch's allocator had at the start of a history. It uses what was live
// then (events of kind EventAlloc), the history itself, and the reserved bytes (0: unknown). A history that begins with
// a burst of EventSegmentFree begins in empty_cache: then the result is what that left.
//
// A block of up to 1 MiB lies in an aligned segment of 2 MiB, one of up to 10 MiB in one of 20 MiB. A larger one begins
// a segment of its own, unless its address shows that it does not: then the segment before it continues, and was larger
// than what is live in it. Allocations of the history at addresses outside the segments that it allocated show how far.
// If some reserved bytes remain unexplained, they belong to the last such segment.
func InferSegments(live []Event, history []Event, reserved int64) []Segment {
	burst := 0
	for burst < len(history) && history[burst].Kind == EventSegmentFree {
		reserved -= history[burst].Size
		burst++
	}
	g := guess{}
	exact, seen := g.survey(live, history[burst:])
	for _, e := range exact {
		g.add(e, e.Size, false)
	}
	slices.SortStableFunc(seen, func(x, y Event) int { return cmp.Compare(x.Addr, y.Addr) })
	for _, e := range seen {
		g.place(e)
	}
	g.stretch(reserved)
	for _, e := range live {
		if i := g.find(e.Addr); i >= 0 {
			seg := &g.segs[i]
			seg.Blocks = append(seg.Blocks, Block{Addr: e.Addr, Size: roundUp(e.Size, minBlock), Requested: e.Size,
				State: BlockLive})
		}
	}
	for i := range g.segs {
		slices.SortFunc(g.segs[i].Blocks, func(x, y Block) int { return cmp.Compare(x.Addr, y.Addr) })
	}
	return g.segs
}

// guess is a layout in construction: segments by address, and which of them have an unknown end.
type guess struct {
	segs []Segment
	open map[uint64]bool
}

// survey returns the segments of the start that the history frees later, and the blocks that lie in segments of the
// start.
func (g *guess) survey(live, history []Event) (exact, seen []Event) {
	born := map[uint64]int64{} // segments that the history allocated
	inside := func(addr uint64) bool {
		for a, n := range born {
			if addr >= a && addr-a < uint64(n) {
				return true
			}
		}
		return false
	}
	seen = slices.Clone(live)
	for _, e := range history {
		switch e.Kind {
		case EventSegmentAlloc:
			born[e.Addr] = e.Size
		case EventSegmentFree:
			if _, ok := born[e.Addr]; !ok {
				exact = append(exact, e)
			}
			delete(born, e.Addr)
		case EventAlloc:
			if !inside(e.Addr) {
				seen = append(seen, e)
			}
		}
	}
	return exact, seen
}

func (g *guess) find(addr uint64) int {
	i, found := slices.BinarySearchFunc(g.segs, addr, func(s Segment, a uint64) int { return cmp.Compare(s.Addr, a) })
	if found {
		return i
	}
	if i > 0 && addr-g.segs[i-1].Addr < uint64(g.segs[i-1].Size) {
		return i - 1
	}
	return -1
}

func (g *guess) add(e Event, size int64, open bool) {
	seg := Segment{Addr: e.Addr, Size: size, Stream: e.Stream, Large: size != smallBuffer}
	i, _ := slices.BinarySearchFunc(g.segs, e.Addr, func(s Segment, a uint64) int { return cmp.Compare(s.Addr, a) })
	g.segs = slices.Insert(g.segs, i, seg)
	if open {
		if g.open == nil {
			g.open = map[uint64]bool{}
		}
		g.open[e.Addr] = true
	}
}

// place explains one block; they come by address.
func (g *guess) place(e Event) {
	size := roundUp(e.Size, minBlock)
	end := e.Addr + uint64(size)
	if i := g.find(e.Addr); i >= 0 {
		g.reach(i, end)
		return
	}
	aligned := e.Addr%smallBuffer == 0
	switch {
	case size <= smallSize:
		e.Addr = e.Addr / smallBuffer * smallBuffer
		g.add(e, smallBuffer, false)
	case aligned && size < minLargeAlloc:
		g.add(e, largeBuffer, false)
	case aligned:
		g.add(e, roundUp(size, roundLarge), false)
	default:
		i, _ := slices.BinarySearchFunc(g.segs, e.Addr, func(s Segment, a uint64) int { return cmp.Compare(s.Addr, a) })
		if i > 0 && g.segs[i-1].Large && e.Addr-g.segs[i-1].Addr < maxSegmentGuess {
			g.reach(i-1, end)
			return
		}
		e.Addr = e.Addr / smallBuffer * smallBuffer
		g.add(e, roundUp(int64(end-e.Addr), roundLarge), true)
	}
}

// maxSegmentGuess is how far behind the start of a segment a block may lie to count as a part of it.
const maxSegmentGuess = 1 << 30

// reach extends a segment at least to end.
func (g *guess) reach(i int, end uint64) {
	seg := &g.segs[i]
	if end <= seg.Addr+uint64(seg.Size) {
		return
	}
	seg.Size = roundUp(int64(end-seg.Addr), roundLarge)
	if g.open == nil {
		g.open = map[uint64]bool{}
	}
	g.open[seg.Addr] = true
}

// stretch assigns the reserved bytes outside all segments to the last one whose end is unknown, as far as the next one
// allows.
func (g *guess) stretch(reserved int64) {
	missing := reserved
	for i := range g.segs {
		missing -= g.segs[i].Size
	}
	for i := len(g.segs) - 1; i >= 0 && missing > 0; i-- {
		seg := &g.segs[i]
		if !g.open[seg.Addr] {
			continue
		}
		more := missing
		if i+1 < len(g.segs) {
			more = min(more, int64(g.segs[i+1].Addr-seg.Addr)-seg.Size)
		}
		seg.Size += more
		missing -= more
	}
}
