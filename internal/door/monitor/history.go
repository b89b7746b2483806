package monitor

import (
	"time"

	"github.com/memgauge/memgauge/internal/judge/forecast"
	"github.com/memgauge/memgauge/internal/judge/fragment"
)

const (
	defaultHistory = 10000 // readings of 100 bytes: 1 MB for each device; the number that the replaced tools keep
	minHistory     = 64
)

// Sample is a reading as it is kept, or several neighbours merged into one when the history was full.
type Sample struct {
	Time     time.Time
	Step     float64
	Low      int64 // the least used
	High     int64 // the most
	Used     int64 // at the end
	Reserved int64
	Total    int64
	Mapped   int64
}

// History is bounded: when it is full, neighbours are merged two by two, so that it still covers the whole time. The
// statistics count every reading.
type History struct {
	max     int
	samples []Sample
	merged  int // readings that one sample stands for; 0 means 1
	pending int // readings in the last sample

	count         int
	percentTime   float64 // integral of the percentage over the time, in s
	watched, peak float64 // s; percent
	peakBytes     int64
	peakReserved  int64
	Last          Reading
}

// Len is the number of samples kept.
func (h *History) Len() int { return len(h.samples) }

// Samples returns the history, oldest first; the caller must not change it.
func (h *History) Samples() []Sample { return h.samples }

// Peak returns the most that was in use, and the highest share of the limit in percent.
func (h *History) Peak() (bytes int64, percent float64) { return h.peakBytes, h.peak }

func (h *History) add(r Reading) {
	if h.count > 0 {
		if took := r.Time.Sub(h.Last.Time).Seconds(); took > 0 {
			h.percentTime += took * (h.Last.Percent() + r.Percent()) / 2
			h.watched += took
		}
	}
	h.Last = r
	r.Peak = max(r.Peak, r.Used)
	h.count++
	if r.Total > 0 {
		h.peak = max(h.peak, 100*float64(r.Peak)/float64(r.Total))
	}
	h.peakBytes, h.peakReserved = max(h.peakBytes, r.Peak), max(h.peakReserved, r.Reserved)
	s := Sample{r.Time, r.Step, r.Used, r.Peak, r.Used, r.Reserved, r.Total, r.Mapped}
	if n := len(h.samples); n > 0 && h.pending < max(1, h.merged) {
		h.samples[n-1] = merge(h.samples[n-1], s)
		h.pending++
		return
	}
	if len(h.samples) >= max(h.max, minHistory) {
		h.halve()
	}
	h.samples = append(h.samples, s)
	h.pending = 1
}

// average returns the mean percentage over the time, however often memory was read.
func (h *History) average() float64 {
	if h.watched <= 0 {
		return h.Last.Percent()
	}
	return h.percentTime / h.watched
}

func (h *History) halve() {
	half := h.samples[:0]
	for i := 0; i+1 < len(h.samples); i += 2 {
		half = append(half, merge(h.samples[i], h.samples[i+1]))
	}
	h.samples = half
	h.merged = 2 * max(1, h.merged)
}

func merge(a, b Sample) Sample {
	b.Low, b.High = min(a.Low, b.Low), max(a.High, b.High)
	b.Reserved = max(a.Reserved, b.Reserved)
	return b
}

// readings returns the history in the form that the forecast takes, in seconds since its beginning.
func (h *History) readings() []forecast.Reading {
	out := make([]forecast.Reading, len(h.samples))
	for i, s := range h.samples {
		out[i] = forecast.Reading{Time: s.Time.Sub(h.samples[0].Time).Seconds(), Step: s.Step, Floor: float64(s.Low),
			Peak: float64(s.High), Mapped: float64(s.Mapped)}
	}
	return out
}

// BlockHistory is what the allocators of a device reported over time.
type BlockHistory struct {
	max   int
	Why   string // what is missing, if they report nothing
	Looks []Look
}

// Look is the state of a device's allocators at one time.
type Look struct {
	Time time.Time
	Of   []Allocator
}

// Sum adds up all processes: their bytes and holes; its largest hole is the largest in any of them.
func (l *Look) Sum() fragment.State {
	var s fragment.State
	for _, a := range l.Of {
		s.Add(a.State)
	}
	return s
}

func (b *BlockHistory) add(at time.Time, states []Allocator, why string) {
	b.Why = why
	if len(states) == 0 {
		return
	}
	b.Why = ""
	if len(b.Looks) >= max(b.max, minHistory) { // every second one, so that the whole time stays covered
		kept := b.Looks[:0]
		for i := 1; i < len(b.Looks); i += 2 {
			kept = append(kept, b.Looks[i])
		}
		b.Looks = kept
	}
	b.Looks = append(b.Looks, Look{at, states})
}

// trend returns the growth of the bytes in holes per second, and a word for it.
func (b *BlockHistory) trend() (perSecond float64, name string) {
	if len(b.Looks) < 3 {
		return 0, "unknown"
	}
	var t, y, tt, ty, n, top float64
	for _, l := range b.Looks {
		x, v := l.Time.Sub(b.Looks[0].Time).Seconds(), float64(sumHoles(l.Of))
		t, y, tt, ty, n, top = t+x, y+v, tt+x*x, ty+x*v, n+1, max(top, v)
	}
	if d := tt - t*t/n; d > 0 {
		perSecond = (ty - t*y/n) / d
	}
	span := b.Looks[len(b.Looks)-1].Time.Sub(b.Looks[0].Time).Seconds()
	switch change := perSecond * span; {
	case change > 0.1*top && change > 1<<20:
		return perSecond, "rising"
	case change < -0.1*top && change < -1<<20:
		return perSecond, "falling"
	}
	return perSecond, "stable"
}

func sumHoles(of []Allocator) (sum int64) {
	for _, a := range of {
		sum += a.State.Holes.Bytes
	}
	return sum
}
