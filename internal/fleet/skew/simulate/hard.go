package simulate

import (
	"math"
	"math/rand/v2"
)

// The noise of Fleet.Hard; none where it is off, and then no random number is drawn.

func none(int) float64 { return 0 }

// hardMemory is a rank's: a drift that the whole job has, which ranks share to within a tenth; one of its own of some
// kilobytes a step; and peaks with Pareto's tail, which come back.
func (f Fleet) hardMemory(r *rand.Rand) func(step int) float64 {
	if !f.Hard {
		return none
	}
	common := 100e3 * (0.95 + 0.1*r.Float64())
	own := 3e3 * r.NormFloat64()
	return func(step int) float64 {
		peak := min(4*gb, 5*mb*math.Pow(1-r.Float64(), -1/1.5))
		return (common+own)*float64(step) + peak
	}
}

// hardTime is when a rank is late: one in fifty is slow for some time, by up to three seconds, and catches up.
func (f Fleet) hardTime(r *rand.Rand) func(step int) float64 {
	if !f.Hard || r.IntN(50) != 0 {
		return none
	}
	from, length, late := r.IntN(f.Steps), 20+r.IntN(80), 3*r.Float64()
	return func(step int) float64 {
		if step < from || step >= from+length {
			return 0
		}
		return late
	}
}

// hardHost is page cache that a node takes up to three times, for a while.
func (f Fleet) hardHost(r *rand.Rand) func(step int) float64 {
	if !f.Hard {
		return none
	}
	type span struct {
		from, to int
		size     float64
	}
	var spans []span
	for range r.IntN(4) {
		from := r.IntN(f.Steps)
		spans = append(spans, span{from, from + f.Steps/20 + r.IntN(f.Steps/10+1), gb * (0.5 + 3*r.Float64())})
	}
	return func(step int) (v float64) {
		for _, s := range spans {
			if step >= s.from && step < s.to {
				v += s.size
			}
		}
		return v
	}
}
