package web

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

const (
	// maxSegments are drawn: a page has no room for more. The largest come first, the rest is counted.
	maxSegments = 400
	// segmentPixels is how finely one is drawn.
	segmentPixels = 800
	// maxRuns bounds the pieces of all segments together.
	maxRuns = 40000
)

// mapped is what an allocator had from the driver at the end.
type mapped struct {
	Segments []segment `json:"segments"`
	Left     int       `json:"left"` // not listed
	Size     int64     `json:"bytes"`
	Free     int64     `json:"free_bytes"`
	Holes    int       `json:"holes"`
	Largest  int64     `json:"largest_hole"`
	Rounding int64     `json:"rounding_bytes"`
	Rest     int64     `json:"rest_bytes"`
}

type segment struct {
	Address    string `json:"address"`
	Size       int64  `json:"bytes"`
	Used       int64  `json:"used"`
	Kind       string `json:"kind"`
	Stream     uint64 `json:"stream"`
	Expandable bool   `json:"expandable"`
	Holes      int    `json:"holes"`
	Largest    int64  `json:"largest_hole"`
	Runs       []run  `json:"runs"`

	rounding, rest int64
}

// run is a piece of a segment, of a kind: free, used, pending (freed, still used by a stream), or the end of a used
// block that nobody asked for: rounding, or a rest too small to be split off. Pieces of less than a pixel are together;
// Blocks are in it.
type run struct {
	At     int64  `json:"at"`
	Bytes  int64  `json:"bytes"`
	State  string `json:"state"`
	Blocks int    `json:"blocks"`
	Stack  string `json:"site,omitempty"` // of its largest block
	big    int64
}

func segmentsOf(p pictured) (any, error) {
	h := p.history
	m := mapped{Segments: []segment{}}
	order := slices.Clone(p.d.Segments)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(h.Columns.Segments[b].Size, h.Columns.Segments[a].Size)
	})
	runs := 0
	for _, i := range order {
		s := p.segment(&h.Columns.Segments[i])
		m.Size, m.Free, m.Holes = m.Size+s.Size, m.Free+s.Size-s.Used, m.Holes+s.Holes
		m.Largest, m.Rounding, m.Rest = max(m.Largest, s.Largest), m.Rounding+s.rounding, m.Rest+s.rest
		if runs += len(s.Runs); len(m.Segments) >= maxSegments || runs > maxRuns {
			m.Left++
			continue
		}
		m.Segments = append(m.Segments, s)
	}
	return m, nil
}

// segment draws one: pieces beside each other of a kind, the smallest joined to what stands before them.
func (p pictured) segment(g *snapshot.SegmentRow) segment {
	h := p.history
	s := segment{Address: fmt.Sprintf("%#x", g.Address), Size: g.Size, Kind: h.Text(g.Kind), Stream: g.Stream,
		Expandable: g.Expandable, Runs: []run{}}
	pixel := max(1, g.Size/segmentPixels)
	var hole int64 // that is still going on: blocks that are free lie beside each other, or are left out of the file
	at := g.Address
	piece := func(bytes int64, state string, stack uint32) {
		if bytes <= 0 {
			return
		}
		if state == "free" {
			if hole == 0 {
				s.Holes++
			}
			hole += bytes
			s.Largest = max(s.Largest, hole)
		} else {
			hole = 0
			s.Used += bytes
		}
		blocks := 1
		if state == "rounding" || state == "rest" {
			blocks = 0 // it belongs to the block before it
		}
		s.add(run{At: int64(at - g.Address), Bytes: bytes, State: state, Blocks: blocks, big: bytes}, pixel,
			func() string { return h.Site(stack) })
		at += uint64(bytes)
	}
	for i := range h.Blocks[g.From:g.To] {
		b := &h.Blocks[g.From+i]
		piece(int64(b.Address-at), "free", 0)
		switch b.State {
		case snapshot.Inactive:
			piece(b.Size, "free", 0)
		case snapshot.PendingFree:
			piece(b.Size, "pending", b.Stack)
		default:
			rounding, rest := anatomy.Lost(b)
			s.rounding, s.rest = s.rounding+rounding, s.rest+rest
			piece(b.Size-rounding-rest, "used", b.Stack)
			piece(rounding, "rounding", b.Stack)
			piece(rest, "rest", b.Stack)
		}
	}
	piece(g.Size-int64(at-g.Address), "free", 0)
	return s
}

// add joins a piece with the one before it if that, or itself, is less than a pixel; the larger one says what both are.
func (s *segment) add(r run, pixel int64, site func() string) {
	if r.State == "free" {
		r.Blocks = 0
		site = func() string { return "" }
	}
	if n := len(s.Runs); n > 0 {
		last := &s.Runs[n-1]
		if last.Bytes < pixel || last.State == r.State && r.State == "free" {
			last.Bytes += r.Bytes
			last.Blocks += r.Blocks
			if r.big > last.big {
				last.State, last.Stack, last.big = r.State, site(), r.big
			}
			return
		}
	}
	r.Stack = site()
	s.Runs = append(s.Runs, r)
}
