package anatomy

import "sort"

// Pyramid answers what a timeline of a device's memory looks like between two moments, at any zoom, in time that does
// not depend on how many events lie there: above the columns, which it shares, it keeps the lowest and the highest
// level of runs of events, of runs of runs, and so on. It takes half a byte an event.
type Pyramid struct {
	d        *Device
	times    []int64 // of the device's events, which never go back
	live     heights
	reserved heights // of d.Reserved, in the same order
	// ByEvent says that the file has no times: moments are numbers of events then, counted from the device's first.
	ByEvent bool
}

// Pixel is what a pixel of a timeline shows. Sizes are in bytes; the lowest and highest levels include the one that
// held when the pixel began.
type Pixel struct {
	Min, Max, Last           int64 // live
	ReservedMin, ReservedMax int64
	Events                   int
}

// Range is the lowest and the highest of some levels.
type Range struct{ Min, Max int64 }

func (r Range) with(o Range) Range { return Range{min(r.Min, o.Min), max(r.Max, o.Max)} }

const (
	firstRun = 64 // events in a run of the lowest floor: going through them costs as much as two cache misses
	nextRuns = 8  // runs in a run of the floor above
)

// heights are levels with their pyramid.
type heights struct {
	at     []int64
	floors [][]Range
}

func newHeights(at []int64) heights {
	t, n := heights{at: at}, len(at)
	floor := make([]Range, 0, n/firstRun)
	for from := 0; from+firstRun <= n; from += firstRun {
		floor = append(floor, t.scan(from, from+firstRun))
	}
	for len(floor) > 0 {
		t.floors = append(t.floors, floor)
		above := make([]Range, 0, len(floor)/nextRuns)
		for from := 0; from+nextRuns <= len(floor); from += nextRuns {
			r := floor[from]
			for _, o := range floor[from+1 : from+nextRuns] {
				r = r.with(o)
			}
			above = append(above, r)
		}
		floor = above
	}
	return t
}

// scan looks at the levels one by one; there is at least one.
func (t *heights) scan(from, to int) Range {
	r := Range{t.at[from], t.at[from]}
	for _, v := range t.at[from+1 : to] {
		r.Min, r.Max = min(r.Min, v), max(r.Max, v)
	}
	return r
}

// between is the range of the levels from one to before another; there is at least one.
func (t *heights) between(from, to int) Range {
	r := Range{t.at[from], t.at[from]}
	for from < to {
		floor, run := -1, 1
		for size := firstRun; floor+1 < len(t.floors) && from%size == 0 && from+size <= to; size *= nextRuns {
			floor, run = floor+1, size
		}
		if floor >= 0 {
			r = r.with(t.floors[floor][from/run])
			from += run
			continue
		}
		end := min(to, (from/firstRun+1)*firstRun)
		r = r.with(t.scan(from, end))
		from = end
	}
	return r
}

// Pyramid builds that of a device.
func (h *History) Pyramid(d *Device) *Pyramid {
	p := &Pyramid{d: d, times: h.Time[d.From:d.To]}
	p.ByEvent = len(p.times) == 0 || p.times[len(p.times)-1] == 0
	if !p.ByEvent && !sort.SliceIsSorted(p.times, func(i, j int) bool { return p.times[i] < p.times[j] }) {
		p.times = ascending(p.times)
	}
	p.live = newHeights(h.Live[d.From:d.To])
	reserved := make([]int64, len(d.Reserved))
	for i, l := range d.Reserved {
		reserved[i] = l.Bytes
	}
	p.reserved = newHeights(reserved)
	return p
}

// ascending holds times that go back at the latest before them: a clock was set, or threads overtook each other.
func ascending(times []int64) []int64 {
	out := make([]int64, len(times))
	latest := times[0]
	for i, t := range times {
		latest = max(latest, t)
		out[i] = latest
	}
	return out
}

// Span is the first and the last moment: µs since the epoch, or numbers of events.
func (p *Pyramid) Span() (from, to int64) {
	switch n := len(p.times); {
	case n == 0:
		return 0, 0
	case p.ByEvent:
		return 0, int64(n - 1)
	default:
		return p.times[0], p.times[n-1]
	}
}

// row is the first of the device's events, from one on, that is not before a moment. It looks near that one first,
// since the pixels of a tile follow each other.
func (p *Pyramid) row(from int, moment int64) int {
	if p.ByEvent {
		return int(min(max(moment, int64(from)), int64(len(p.times))))
	}
	return from + gallop(len(p.times)-from, func(i int) bool { return p.times[from+i] >= moment })
}

// gallop is sort.Search for an answer that is likely to be small: it looks at 1, 2, 4, … first.
func gallop(n int, is func(i int) bool) int {
	high := 1
	for high < n && !is(high) {
		high *= 2
	}
	low := high / 2
	return low + sort.Search(min(high, n)-low, func(i int) bool { return is(low + i) })
}

// Tile fills pixels with what lies between two moments, the second of them excluded; each pixel is as long as the
// others.
func (p *Pyramid) Tile(from, to int64, pixels []Pixel) {
	at := p.row(0, from)
	level := p.d.levelAt(p.d.From + at - 1)
	for i := range pixels {
		end := from + int64(float64(to-from)*float64(i+1)/float64(len(pixels)))
		next := p.row(at, end)
		pixels[i], level = p.pixel(at, next, level)
		at = next
	}
}

// pixel shows the events from one to before another, which may be none. level is the one of Reserved that held before
// them; what holds after them is returned.
func (p *Pyramid) pixel(from, to, level int) (Pixel, int) {
	x := Pixel{Last: p.d.Before, Events: to - from}
	if from > 0 {
		x.Last = p.live.at[from-1]
	}
	live := Range{x.Last, x.Last}
	reserved := Range{p.reserved.at[level], p.reserved.at[level]}
	if from < to {
		x.Last = p.live.at[to-1]
		live = live.with(p.live.between(from, to))
		rest := p.d.Reserved[level:]
		last := level - 1 + gallop(len(rest), func(i int) bool { return rest[i].Row >= p.d.From+to })
		reserved, level = p.reserved.between(level, last+1), last
	}
	x.Min, x.Max, x.ReservedMin, x.ReservedMax = live.Min, live.Max, reserved.Min, reserved.Max
	return x, level
}
