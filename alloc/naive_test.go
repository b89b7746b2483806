package alloc

import (
	"cmp"
	"fmt"
	"slices"
)

// naive is the allocator as one would write it without a thought for speed: slices that are searched from end to end,
// sums taken anew after each operation. It follows PyTorch's rules, from the same description as the real one and with
// no line in common, and must agree with it in every address, statistic and error.
type naive struct {
	segs     []*naiveSegment
	driver   interface{ Alloc(int64) (Ptr, error) }
	release  func(Ptr, int64) error
	limit    int64
	maxSplit int64
	o        Options

	pendingNow         map[*naiveBlock]int
	peak               naiveGauges
	hits, misses, ooms int64
	retries            int64
}

type naiveSegment struct {
	addr   uint64
	size   int64
	stream Stream
	large  bool
	blocks []*naiveBlock
}

type naiveBlock struct {
	addr      uint64
	size, ask int64
	owners    int
	pending   bool
}

func (b *naiveBlock) idle() bool { return b.owners == 0 && !b.pending }

func (n *naive) reserved() (sum int64) {
	for _, s := range n.segs {
		sum += s.size
	}
	return sum
}

func naiveRound(size int64) int64 {
	for r := int64(512); ; r += 512 {
		if r >= size {
			return r
		}
		if size-r > 1<<20 { // not that naive
			r += (size - r) / 512 * 512
			r -= 512
		}
	}
}

// fit returns where the smallest idle block that serves size lies, of equals the lowest.
func (n *naive) fit(stream Stream, large bool, size int64) (*naiveSegment, int) {
	var bestSeg *naiveSegment
	best := -1
	for _, s := range n.segs {
		if s.stream != stream || s.large != large {
			continue
		}
		for i, b := range s.blocks {
			if !b.idle() || b.size < size {
				continue
			}
			if best >= 0 {
				c := bestSeg.blocks[best]
				if cmp.Or(cmp.Compare(c.size, b.size), cmp.Compare(c.addr, b.addr)) < 0 {
					continue
				}
			}
			bestSeg, best = s, i
		}
	}
	if best >= 0 {
		have := bestSeg.blocks[best].size
		if size < n.maxSplit && have >= n.maxSplit || size >= n.maxSplit && have >= size+20<<20 {
			return nil, -1
		}
	}
	return bestSeg, best
}

func (n *naive) alloc(size int64, stream Stream) (Ptr, error) {
	block := naiveRound(size)
	large := block > 1<<20
	s, i := n.fit(stream, large, block)
	hit := i >= 0
	if !hit {
		var err error
		if s, err = n.more(block, stream, large); err != nil {
			n.ooms++
			n.note()
			return 0, err
		}
		i = slices.IndexFunc(s.blocks, func(b *naiveBlock) bool { return b.idle() && b.size >= block })
		if fs, fi := n.fit(stream, large, block); fi >= 0 {
			s, i = fs, fi
		}
	}
	b := s.blocks[i]
	rest := b.size - block
	if !large && rest >= 512 || large && rest > 1<<20 && block < n.maxSplit {
		s.blocks = slices.Insert(s.blocks, i+1, &naiveBlock{addr: b.addr + uint64(block), size: rest})
		b.size = block
	}
	b.owners, b.ask = 1, size
	if hit {
		n.hits++
	} else {
		n.misses++
	}
	n.note()
	return Ptr(b.addr), nil
}

// more asks the driver, then again after giving back what it can.
func (n *naive) more(block int64, stream Stream, large bool) (*naiveSegment, error) {
	size := int64(2 << 20)
	if large {
		if size = 20 << 20; block >= 10<<20 {
			size = (block + 2<<20 - 1) / (2 << 20) * (2 << 20)
		}
	}
	if block > n.limit {
		return nil, ErrNoMemory
	}
	try := func() *naiveSegment {
		if n.reserved()+size > n.limit {
			return nil
		}
		p, err := n.driver.Alloc(size)
		if err != nil {
			return nil
		}
		s := &naiveSegment{uint64(p), size, stream, large, []*naiveBlock{{addr: uint64(p), size: size}}}
		n.segs = append(n.segs, s)
		return s
	}
	if s := try(); s != nil {
		return s, nil
	}
	if n.maxSplit != noLimit && n.dropOversize(block, stream, large) {
		if s := try(); s != nil {
			return s, nil
		}
	}
	for b := range n.pendingNow {
		n.finish(b)
	}
	n.empty()
	n.note()
	n.retries++
	if s, i := n.fit(stream, large, block); i >= 0 {
		return s, nil
	}
	if s := try(); s != nil {
		return s, nil
	}
	return nil, ErrNoMemory
}

// dropOversize is release_available_cached_blocks.
func (n *naive) dropOversize(block int64, stream Stream, large bool) bool {
	need := max(block, n.maxSplit)
	var idle []*naiveSegment
	for _, s := range n.segs {
		if s.stream == stream && s.large == large && len(s.blocks) == 1 && s.blocks[0].idle() && s.size >= n.maxSplit {
			idle = append(idle, s)
		}
	}
	slices.SortFunc(idle, func(x, y *naiveSegment) int {
		return cmp.Or(cmp.Compare(x.size, y.size), cmp.Compare(x.addr, y.addr))
	})
	for _, s := range idle {
		if s.size >= need {
			n.drop(s)
			return true
		}
	}
	var sum int64
	for i := len(idle) - 1; i >= 0 && sum < need; i-- {
		sum += idle[i].size
		n.drop(idle[i])
	}
	return sum >= need
}

func (n *naive) drop(s *naiveSegment) {
	if err := n.release(Ptr(s.addr), s.size); err != nil {
		panic(err)
	}
	n.segs = slices.DeleteFunc(n.segs, func(o *naiveSegment) bool { return o == s })
}

func (n *naive) empty() {
	for _, s := range slices.Clone(n.segs) {
		if len(s.blocks) == 1 && s.blocks[0].idle() {
			n.drop(s)
		}
	}
}

func (n *naive) find(p Ptr) (*naiveSegment, *naiveBlock) {
	for _, s := range n.segs {
		for _, b := range s.blocks {
			if b.addr == uint64(p) {
				return s, b
			}
		}
	}
	return nil, nil
}

// free gives back an ownership; waits says that other streams still use the block.
func (n *naive) free(p Ptr, waits bool) *naiveBlock {
	_, b := n.find(p)
	if b.owners--; b.owners > 0 {
		return nil
	}
	if waits {
		b.pending = true
		n.pendingNow[b] = 1
	} else {
		n.join(b)
	}
	n.note()
	return b
}

func (n *naive) finish(b *naiveBlock) {
	delete(n.pendingNow, b)
	b.pending = false
	n.join(b)
}

// join puts neighbouring idle blocks together.
func (n *naive) join(b *naiveBlock) {
	b.ask = 0
	s, _ := n.find(Ptr(b.addr))
	for i := 0; i+1 < len(s.blocks); {
		if l, r := s.blocks[i], s.blocks[i+1]; l.idle() && r.idle() {
			l.size += r.size
			s.blocks = slices.Delete(s.blocks, i+1, i+2)
		} else {
			i++
		}
	}
}

var naiveNames = [...]string{"count", "allocated", "used", "cached", "segment", "reserved", "active", "activebytes",
	"requested",
	"split", "splitbytes"}

// naiveGauges has all, small and large of each name.
type naiveGauges [len(naiveNames)][3]int64

// gauges are the sums over all blocks.
func (n *naive) gauges() (g naiveGauges) {
	for _, s := range n.segs {
		pool := 1
		if s.large {
			pool = 2
		}
		add := func(name string, v int64) {
			for i := range naiveNames {
				if naiveNames[i] == name {
					g[i][0] += v
					g[i][pool] += v
				}
			}
		}
		add("segment", 1)
		add("reserved", s.size)
		add("cached", s.size)
		for _, b := range s.blocks {
			switch {
			case b.owners > 0:
				add("count", 1)
				add("allocated", b.size)
				add("used", b.ask)
				add("cached", -b.size)
				fallthrough
			case b.pending:
				add("active", 1)
				add("activebytes", b.size)
				add("requested", b.ask)
			case len(s.blocks) > 1:
				add("split", 1)
				add("splitbytes", b.size)
			}
		}
	}
	return g
}

func (n *naive) note() {
	g := n.gauges()
	for i := range g {
		for j, v := range g[i] {
			n.peak[i][j] = max(n.peak[i][j], v)
		}
	}
}

func naiveStats(s *Stats) (now, peak naiveGauges) {
	for i, p := range []PoolStats{s.Allocation, s.AllocatedBytes, s.UsedBytes, s.CachedBytes, s.Segment,
		s.ReservedBytes,
		s.Active, s.ActiveBytes, s.RequestedBytes, s.InactiveSplit, s.InactiveSplitBytes} {
		for j, v := range []Stat{p.All, p.Small, p.Large} {
			now[i][j], peak[i][j] = v.Current, v.Peak
		}
	}
	return now, peak
}

// compare returns the first difference between the two.
func (n *naive) compare(a *Allocator) error {
	s := a.Stats()
	now, peak := naiveStats(&s)
	want := n.gauges()
	for i, name := range naiveNames {
		if now[i] != want[i] {
			return fmt.Errorf("%s (all, small, large) is %d, the naive model says %d", name, now[i], want[i])
		}
		if peak[i] != n.peak[i] {
			return fmt.Errorf("the peak of %s (all, small, large) is %d, the naive model says %d", name, peak[i],
				n.peak[i])
		}
	}
	if s.Hits != n.hits || s.Misses != n.misses || s.OOMs != n.ooms || s.Retries != n.retries {
		return fmt.Errorf("%d hits, %d misses, %d out of memory, %d retries; the naive model says %d, %d, %d, %d",
			s.Hits, s.Misses, s.OOMs, s.Retries, n.hits, n.misses, n.ooms, n.retries)
	}
	return nil
}
