package replay

import (
	"cmp"
	"slices"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// ranges are the expandable segments that PyTorch had at first, if the settings have such segments and the file
// describes no others; nil if it doesn't. PyTorch has one for each stream and pool. The file doesn't say where its
// addresses begin. All that was ever mapped lies behind that point, and the segment begins at a whole page of it.
func (p *player) ranges(t *snapshot.Trace, o *alloc.Options) []*alloc.VirtualRange {
	if !o.ExpandableSegments || p.a.Policy() != alloc.Torch || len(t.Mapped) == 0 || len(t.Segments) > 0 {
		return nil
	}
	var out []*alloc.VirtualRange
	live := t.Live
	for _, m := range t.Mapped {
		if m.Addr%page != 0 || m.Size%page != 0 {
			return nil // no driver maps such ranges
		}
		g := alloc.Segment{Addr: m.Addr, Size: m.Size, Stream: alloc.Stream(m.Stream), Large: !m.Small, Virtual: true}
		var ok bool
		if live, ok = fill(&g, live, o, 0); !ok {
			return nil
		}
		i := slices.IndexFunc(out, func(r *alloc.VirtualRange) bool {
			return r.Stream == g.Stream &&
				r.Large == g.Large
		})
		if i < 0 {
			i = len(out)
			out = append(out, &alloc.VirtualRange{Addr: g.Addr, Stream: g.Stream, Large: g.Large})
		}
		out[i].Runs = append(out[i].Runs, g)
	}
	if len(live) > 0 {
		return nil
	}
	for i := range p.ops {
		if o := &p.ops[i]; o.kind == opReserve {
			if r := nearest(out, alloc.Stream(p.streams[o.stream]), o); r != nil {
				r.Addr = min(r.Addr, o.addr)
			}
		}
	}
	for _, r := range out {
		last := &r.Runs[len(r.Runs)-1]
		r.Size = (int64(last.Addr-r.Addr) + last.Size + 2*p.driver.capacity + page - 1) / page * page
	}
	return out
}

// nearest returns the range into which an event mapped memory. Among those of its stream and page size it is the one
// whose memory is nearest, since each range has more addresses than the device has memory.
func nearest(all []*alloc.VirtualRange, stream alloc.Stream, o *op) *alloc.VirtualRange {
	var best *alloc.VirtualRange
	away := uint64(1 << 40)
	for _, r := range all {
		if r.Stream != stream || (r.Large && o.size <= smallSegment) {
			continue
		}
		for i := range r.Runs {
			if d := max(r.Runs[i].Addr, o.addr) - min(r.Runs[i].Addr, o.addr); d < away {
				best, away = r, d
			}
		}
	}
	return best
}

func (p *player) restoreRanges(ranges []*alloc.VirtualRange, t *snapshot.Trace) error {
	slices.SortFunc(ranges, func(x, y *alloc.VirtualRange) int { return cmp.Compare(x.Addr, y.Addr) })
	for i, r := range ranges {
		if i+1 < len(ranges) {
			r.Size = min(r.Size, int64(ranges[i+1].Addr-r.Addr)/page*page)
		}
		if err := p.a.RestoreVirtual(r); err != nil {
			return err
		}
	}
	for i := range t.Live {
		p.held[i] = alloc.Ptr(t.Live[i].Addr)
	}
	if p.opening > 0 { // the history begins with an empty_cache
		if err := p.empty(); err != nil {
			return err
		}
	}
	p.driver.begin()
	return nil
}
