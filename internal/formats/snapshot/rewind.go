package snapshot

import (
	"cmp"
	"slices"

	"github.com/memgauge/memgauge/internal/base/order"
)

// rewinder goes through a history backwards, from the state at its end to the one at its beginning.
type rewinder struct {
	live     map[uint64]LiveBlock
	segments []held // what the driver gave in one piece, by address
	mapped   []held // memory behind expandable segments, by address
	pools    map[[2]int64]uint64
}

// held is memory of a segment at the moment that the rewinder has come to.
type held struct {
	Span
	small bool
	pool  uint64 // 0 is the pool that all programs use; others are private ones (CUDA graphs, torch.cuda.MemPool)
}

// poolBit is where a private pool's number stands in a trace's streams: what is allocated from one pool must not lie in
// another, just as with streams. CUDA's streams are addresses, below 2^48.
const poolBit = 48

// rewind returns what was there before the first event of a device, and puts the private pool that each event belongs
// to into its stream.
func rewind(segments []Segment, device int, h *History) Opening {
	r := finalState(segments, device)
	pooled := len(r.pools) > 0
	if pooled {
		h.own()
	}
	for i := h.Len() - 1; i >= 0; i-- {
		e := h.At(i)
		if pooled {
			if g := r.around(e.Addr); g != nil {
				e.Stream |= g.pool << poolBit
				h.Stream[i] = h.place(e.Stream)
			}
		}
		r.undo(e)
	}
	o := Opening{}
	for _, b := range r.live {
		o.Live = append(o.Live, b)
	}
	for _, g := range r.segments {
		o.Reserved += g.Size
		g.Stream |= g.pool << poolBit
		o.Segments = append(o.Segments, g.Span)
	}
	for _, g := range r.mapped {
		o.Reserved += g.Size
		g.Stream |= g.pool << poolBit
		o.Mapped = append(o.Mapped, Mapped{g.Span, g.small})
	}
	slices.SortFunc(o.Live, func(a, b LiveBlock) int { return cmp.Compare(a.Addr, b.Addr) })
	return o
}

func (r *rewinder) undo(e Step) {
	switch e.Action {
	case IsAlloc:
		delete(r.live, e.Addr)
	case IsFreeCompleted:
		r.live[e.Addr] = LiveBlock{e.Addr, e.Size, e.Stream}
	case IsSegmentAlloc:
		if i, ok := place(r.segments, e.Addr); ok && r.segments[i].Size == e.Size {
			r.segments = slices.Delete(r.segments, i, i+1)
		}
	case IsSegmentFree:
		i, _ := place(r.segments, e.Addr)
		r.segments = slices.Insert(r.segments, i, held{Span: Span{e.Addr, e.Size, e.Stream}})
	case IsSegmentMap:
		r.unmap(Span{e.Addr, e.Size, e.Stream})
	case IsSegmentUnmap:
		r.remap(held{Span: Span{e.Addr, e.Size, e.Stream}})
	}
}

// place is where a segment at the address stands, or would.
func place(in []held, addr uint64) (int, bool) {
	return slices.BinarySearchFunc(in, addr, func(g held, addr uint64) int { return cmp.Compare(g.Addr, addr) })
}

// around is the segment that has the address; nil if none has.
func (r *rewinder) around(addr uint64) *held {
	for _, list := range [][]held{r.segments, r.mapped} {
		i, exact := place(list, addr)
		if !exact {
			i--
		}
		if i >= 0 && i < len(list) && addr-list[i].Addr < uint64(list[i].Size) {
			return &list[i]
		}
	}
	return nil
}

// unmap takes a range out of what is mapped; it may be the middle of what was mapped in several steps.
func (r *rewinder) unmap(gone Span) {
	end := gone.Addr + uint64(gone.Size)
	i, exact := place(r.mapped, gone.Addr)
	if !exact && i > 0 {
		i--
	}
	for i < len(r.mapped) && r.mapped[i].Addr < end {
		g := r.mapped[i]
		gEnd := g.Addr + uint64(g.Size)
		if gEnd <= gone.Addr {
			i++
			continue
		}
		var rest []held
		if g.Addr < gone.Addr {
			front := g
			front.Size = int64(gone.Addr - g.Addr)
			rest = append(rest, front)
		}
		if gEnd > end {
			rear := g
			rear.Addr, rear.Size = end, int64(gEnd-end)
			rest = append(rest, rear)
		}
		r.mapped = slices.Replace(r.mapped, i, i+1, rest...)
		i += len(rest)
	}
}

// smallPage is what PyTorch maps at a time for its small pool, in bytes; the large pool's pages are ten times that.
const smallPage = 2 << 20

// remap puts a range back. Its pool is that of the memory beside it, else what its size says.
func (r *rewinder) remap(g held) {
	i, _ := place(r.mapped, g.Addr)
	g.small = g.Size == smallPage
	if i < len(r.mapped) && r.mapped[i].Stream == g.Stream && r.mapped[i].Addr == g.Addr+uint64(g.Size) {
		next := r.mapped[i]
		g.small, g.pool, g.Size = next.small, next.pool, g.Size+next.Size
		r.mapped = slices.Delete(r.mapped, i, i+1)
	}
	if i > 0 && r.mapped[i-1].Stream == g.Stream && r.mapped[i-1].Addr+uint64(r.mapped[i-1].Size) == g.Addr {
		r.mapped[i-1].Size += g.Size
		return
	}
	r.mapped = slices.Insert(r.mapped, i, g)
}

// finalState is what the snapshot's segments say.
func finalState(segments []Segment, device int) *rewinder {
	r := &rewinder{live: map[uint64]LiveBlock{}}
	for i := range segments {
		g := &segments[i]
		if g.Device != device {
			continue
		}
		h := held{Span{g.Address, g.Size, g.Stream}, g.Kind == "small", r.pool(g.Pool)}
		if g.Expandable {
			r.mapped = append(r.mapped, h)
		} else {
			r.segments = append(r.segments, h)
		}
		for _, b := range g.Blocks {
			if b.State == Allocated || b.State == PendingFree {
				r.live[b.Address] = LiveBlock{b.Address, b.Requested, g.Stream | h.pool<<poolBit}
			}
		}
	}
	for _, list := range [][]held{r.segments, r.mapped} {
		order.Stable(list, func(a, b held) int { return cmp.Compare(a.Addr, b.Addr) })
	}
	return r
}

// pool numbers the private pools from 1 on.
func (r *rewinder) pool(id [2]int64) uint64 {
	if id == ([2]int64{}) {
		return 0
	}
	if r.pools == nil {
		r.pools = map[[2]int64]uint64{}
	}
	if r.pools[id] == 0 {
		r.pools[id] = uint64(len(r.pools) + 1)
	}
	return r.pools[id]
}
