package forecast

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	scenarios = 41  // lines that stand for the trend's distribution, of equal weight
	stretches = 240 // at most so many steps between the first and the last time at which a peak may cross
)

// outcome is a time at which the limit is met, with its probability.
type outcome struct{ seconds, mass float64 }

// distribution of the time until the limit is met; the part missing to 1 never meets it.
type distribution []outcome

// passage combines the trend's uncertainty with the randomness of each step's peak. Every scenario is a line; along it
// the limit is met in the first stretch whose amplitude reaches the remaining room.
func passage(l line, points []Point, limit float64) distribution {
	above := peaksOver(l, points)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(points) - 2)}
	var d distribution
	for k := range scenarios {
		z := t.Quantile((float64(k) + 0.5) / scenarios)
		d = append(d, along(l, z, above, limit)...)
	}
	slices.SortFunc(d, func(a, b outcome) int { return int(math.Copysign(1, a.seconds-b.seconds)) })
	return d
}

// seenTop is the share of stretches that show a step's top, if readings are moments: a sampler rarely hits the top of a
// step, though each step reaches it. A height that fewer stretches show is assumed to be rare.
const seenTop = 1. / 3

// heights are how far peaks rise above the trend, sorted, with the share of all peaks that are at least so high.
type heights struct{ bytes, share []float64 }

// peaksOver returns the heights of the points. Each counts as much as its time counts for the trend: a start that
// briefly needs more says little about the future.
func peaksOver(l line, points []Point) heights {
	out := make([]float64, len(points))
	for i, p := range points {
		base := l.mean + l.slope*(p.PeakAt-l.at)
		if l.walks {
			base = p.Floor + l.slope*(p.PeakAt-p.FloorAt)
		}
		out[i] = p.Peak - base
	}
	h := rank(out, recent(times(points)))
	if points[len(points)-1].Sampled {
		h.lift()
	}
	return h
}

// lift raises heights that are lower than the top that is seen often enough.
func (a heights) lift() {
	i := len(a.share) - 1
	for i > 0 && a.share[i] < seenTop {
		i--
	}
	for k := range i {
		a.bytes[k] = a.bytes[i]
	}
}

func rank(bytes, weights []float64) heights {
	order := make([]int, len(bytes))
	total := 0.0
	for i := range order {
		order[i], total = i, total+weights[i]
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(bytes[a], bytes[b]) })
	h := heights{make([]float64, len(bytes)), make([]float64, len(bytes))}
	left := total
	for k, i := range order {
		h.bytes[k], h.share[k] = bytes[i], left/total
		left -= weights[i]
	}
	return h
}

// along follows one scenario from the first moment at which a peak may cross to the one at which every peak does.
func along(l line, z float64, above heights, limit float64) []outcome {
	const mass = 1.0 / scenarios
	first := reachTime(l, z, limit-above.bytes[len(above.bytes)-1])
	if math.IsInf(first, 1) {
		return nil
	}
	certain := reachTime(l, z, limit-above.bytes[0])
	span := max(certain-first, 0)
	if math.IsInf(certain, 1) {
		span = 1e3 * l.spacing
	}
	step := max(l.spacing, span/stretches)
	var out []outcome
	alive := 1.0
	for s := first; alive > 1e-3 && s <= first+span+step; s += step {
		value, err := l.ahead(s + step/2) // in the middle of the stretch that begins at s
		p := above.exceed(limit - value - z*err)
		die := alive * (1 - math.Pow(1-p, step/l.spacing))
		if die > 0 {
			for _, part := range []float64{1. / 6, 3. / 6, 5. / 6} {
				out = append(out, outcome{min(s+part*step, max(first, certain)), die * mass / 3})
			}
		}
		alive -= die
	}
	return out
}

// reachTime is when a scenario's trend reaches a level: the root of value + z·err − level, by bisection; +Inf if that
// takes more than a thousand times as long as was watched.
func reachTime(l line, z, level float64) float64 {
	at := func(s float64) float64 { v, err := l.ahead(s); return v + z*err - level }
	if at(0) >= 0 {
		return 0
	}
	far := 2e3 * max(l.end-l.at, l.spacing)
	lo, hi := 0.0, l.spacing
	for at(hi) < 0 {
		if lo, hi = hi, 2*hi; hi > far {
			return math.Inf(1)
		}
	}
	for range 50 {
		if mid := (lo + hi) / 2; at(mid) < 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// exceed returns the share of heights that are at least h.
func (a heights) exceed(h float64) float64 {
	i, _ := slices.BinarySearch(a.bytes, h)
	if i == len(a.bytes) {
		return 0
	}
	return a.share[i]
}

func (d distribution) before(s float64) float64 {
	sum := 0.0
	for _, o := range d {
		if o.seconds > s {
			break
		}
		sum += o.mass
	}
	return min(sum, 1)
}

func (d distribution) quantile(q float64) float64 {
	sum := 0.0
	for _, o := range d {
		if sum += o.mass; sum >= q {
			return o.seconds
		}
	}
	return math.Inf(1)
}
