package anatomy

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// walk is a history of n events whose level goes up and down, with a segment now and then.
func walk(n int) (*History, *Device) {
	rnd := rand.New(rand.NewPCG(5, 6))
	c := &snapshot.Columns{Time: make([]int64, n)}
	h := &History{Columns: c, Live: make([]int64, n)}
	d := &Device{To: n, Before: 1 << 30, Reserved: []Level{{-1, 1 << 31}}}
	level, at := d.Before, int64(1e15)
	for i := range n {
		level = max(0, level+rnd.Int64N(1<<20)-1<<19)
		at += rnd.Int64N(40) - 2 // now and then the clock goes back
		h.Live[i], c.Time[i] = level, at
		if rnd.IntN(500) == 0 {
			d.Reserved = append(d.Reserved, Level{i, level + rnd.Int64N(1<<30)})
		}
	}
	return h, d
}

// A tile shows what going through all events shows, at every zoom.
func TestTilesAgreeWithEvents(t *testing.T) {
	h, d := walk(40_000)
	p := h.Pyramid(d)
	first, last := p.Span()
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 60 {
		from := first - 100 + rnd.Int64N(last-first)
		to := from + 1 + rnd.Int64N(1+(last-first)>>rnd.IntN(12))
		pixels := make([]Pixel, 1+rnd.IntN(50))
		p.Tile(from, to, pixels)
		at := 0
		for at < d.To && p.times[at] < from {
			at++
		}
		for i, got := range pixels {
			end := from + int64(float64(to-from)*float64(i+1)/float64(len(pixels)))
			want := Pixel{Min: d.Before, ReservedMin: d.ReservedAt(at - 1)}
			if at > 0 {
				want.Min = h.Live[at-1]
			}
			want.Max, want.Last, want.ReservedMax = want.Min, want.Min, want.ReservedMin
			for ; at < d.To && p.times[at] < end; at++ {
				want.Min, want.Max, want.Last = min(want.Min, h.Live[at]), max(want.Max, h.Live[at]), h.Live[at]
				want.ReservedMin, want.ReservedMax = min(want.ReservedMin, d.ReservedAt(at)),
					max(want.ReservedMax, d.ReservedAt(at))
				want.Events++
			}
			if got != want {
				t.Fatalf("%d to %d, pixel %d of %d: %+v, want %+v", from, to, i, len(pixels), got, want)
			}
		}
	}
}

// Without times the moments are numbers of events; without events there is one level.
func TestTilesWithoutTimes(t *testing.T) {
	h, d := walk(1000)
	clear(h.Time)
	p := h.Pyramid(d)
	pixels := make([]Pixel, 2)
	p.Tile(0, 1000, pixels)
	if _, last := p.Span(); !p.ByEvent || last != 999 || pixels[0].Events != 500 || pixels[1].Last != h.Live[999] {
		t.Errorf("got %+v", pixels)
	}
	d.To = 0
	p = h.Pyramid(d)
	p.Tile(0, 10, pixels)
	if want := (Pixel{Min: d.Before, Max: d.Before, Last: d.Before, ReservedMin: 1 << 31,
		ReservedMax: 1 << 31}); pixels[1] != want {
		t.Errorf("got %+v", pixels)
	}
}

// BenchmarkTile draws a screen of 2,000 pixels out of six million events, at every zoom in turn.
func BenchmarkTile(b *testing.B) {
	h, d := walk(6_000_000)
	began := time.Now()
	p := h.Pyramid(d)
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/pyramid")
	first, last := p.Span()
	pixels := make([]Pixel, 2000)
	zoom := 0
	for b.Loop() {
		length := (last - first) >> zoom
		p.Tile(first+length/3, first+length/3+length, pixels)
		zoom = (zoom + 1) % 16
	}
}
