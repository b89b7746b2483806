package skew

import (
	"math"
	"slices"

	"github.com/memgauge/memgauge/internal/base/stats"
)

// A unit is compared with its peers: those whose level is nearest to its own when the run begins. The stages of a
// pipeline hold different amounts, and grow differently while they warm up. A quarter of a small fleet is too few for a
// median that one odd rank can't move.
const (
	leastPeers = 8
	mostPeers  = 48
)

// change is how a unit departs from its peers during the run: not at all, by a step, or along a line from some bucket
// on.
type change struct {
	line   bool
	at     int     // index of the column from which it departs
	excess float64 // at the end of the run, above its peers
	err    float64 // standard error of excess
	pace   float64 // of a line, per column
}

// deviations are each unit's distances from the median of its peers, by column; NaN where it has no value.
func deviations(g *Grid, columns []int) [][]float64 {
	out := make([][]float64, g.Len())
	values := make([]float64, 0, mostPeers)
	for _, group := range groupsOf(g, columns) {
		for _, i := range group.units {
			out[i] = make([]float64, len(columns))
		}
		for c, b := range columns {
			values = values[:0]
			for _, p := range group.peers {
				if v := g.at(p, b); !math.IsNaN(v) {
					values = append(values, v)
				}
			}
			m := middle(values)
			for _, i := range group.units {
				out[i][c] = g.at(i, b) - m
			}
		}
	}
	return out
}

// middle is the median; it sorts its argument.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// group is some units with the peers of them all.
type group struct{ units, peers []int }

// groupsOf finds the peers of each unit: those next to it in the order of levels at the beginning. In a large fleet
// some neighbours share their peers and are among them, which moves a median of mostPeers little and saves most of the
// work; in a small one each has its own, without itself.
func groupsOf(g *Grid, columns []int) (out []group) {
	n := g.Len()
	level := levels(g, columns[:max(1, len(columns)/8)])
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return compareNaN(level[a], level[b]) })
	count := min(n-1, max(leastPeers, min(mostPeers, n/4)))
	together := 1
	if n > 2*mostPeers {
		together = mostPeers / 6
	}
	for at := 0; at < n; at += together {
		end := min(n, at+together)
		from := min(max(0, (at+end)/2-count/2), n-1-count)
		peers := slices.Clone(order[from : from+count+1])
		if together == 1 {
			peers = slices.DeleteFunc(peers, func(p int) bool { return p == order[at] })
		}
		out = append(out, group{order[at:end], peers})
	}
	return out
}

func compareNaN(a, b float64) int {
	switch {
	case a < b || math.IsNaN(b) && !math.IsNaN(a):
		return -1
	case a > b || math.IsNaN(a) && !math.IsNaN(b):
		return 1
	}
	return 0
}

// levels are the units' medians over columns.
func levels(g *Grid, columns []int) []float64 {
	out := make([]float64, g.Len())
	for i := range out {
		var values []float64
		for _, b := range columns {
			if v := g.at(i, b); !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		out[i] = middle(values)
	}
	return out
}

// least is the number of columns below which nothing is said of a change.
const least = 8

// depart finds the change that explains a unit's deviations best, by least squares over every place where it could
// begin.
func depart(ys []float64) (change, bool) {
	xs := make([]float64, 0, len(ys))
	vs := make([]float64, 0, len(ys))
	for x, y := range ys {
		if !math.IsNaN(y) {
			xs, vs = append(xs, float64(x)), append(vs, y)
		}
	}
	if len(xs) < least {
		return change{}, false
	}
	line, lineLeft := bestLine(xs, vs, 0, len(xs)-3)
	step, stepLeft := bestStep(xs, vs, 2, len(xs)-2)
	end := xs[len(xs)-1]
	if stepLeft < 0.8*lineLeft { // a line that is interrupted by noise must not pass for a step
		return change{at: int(step.from), excess: step.height, err: step.err}, true
	}
	span := end - line.from
	return change{line: true, at: int(line.from), excess: line.height * span, err: line.err * span,
		pace: line.height}, true
}

// shape is a fitted change: how much of it, from where.
type shape struct{ from, height, err float64 }

// sums are those of a fit over some of the points.
type sums struct{ n, x, xx, y, xy float64 }

// bestLine fits y = a + height·max(0, x-from) for each place from, by sums over the points behind it, and returns the
// one that leaves least.
func bestLine(xs, ys []float64, low, high int) (best shape, left float64) {
	f := newFit(ys)
	var s sums
	for k := len(xs) - 1; k >= low; k-- {
		x, y := xs[k], ys[k]
		s = sums{s.n + 1, s.x + x, s.xx + x*x, s.y + y, s.xy + x*y}
		if k <= high {
			f.try(x, s.x-s.n*x, s.xx-2*x*s.x+s.n*x*x, s.xy-x*s.y)
		}
	}
	return f.best, f.left
}

// bestStep fits y = a + height where x >= from, else a.
func bestStep(xs, ys []float64, low, high int) (best shape, left float64) {
	f := newFit(ys)
	n, y := 0.0, 0.0
	for k := len(xs) - 1; k >= low; k-- {
		n, y = n+1, y+ys[k]
		if k <= high {
			f.try(xs[k], n, n, y)
		}
	}
	return f.best, f.left
}

// fit keeps the best of several shapes; of equally good ones the earliest, which comes last.
type fit struct {
	n, sumY, varY float64
	best          shape
	left          float64
}

func newFit(ys []float64) fit {
	f := fit{n: float64(len(ys)), left: math.Inf(1)}
	sumYY := 0.0
	for _, y := range ys {
		f.sumY, sumYY = f.sumY+y, sumYY+y*y
	}
	f.varY = sumYY - f.sumY*f.sumY/f.n
	return f
}

// try takes a shape by the sums of its values, of their squares, and of their products with y.
func (f *fit) try(from, sumF, sumFF, sumFY float64) {
	varF, cov := sumFF-sumF*sumF/f.n, sumFY-sumF*f.sumY/f.n
	if varF <= 0 {
		return
	}
	if rest := max(0, f.varY-cov*cov/varF); rest <= f.left {
		f.left = rest
		f.best = shape{from: from, height: cov / varF, err: math.Sqrt(rest / max(1, f.n-3) / varF)}
	}
}

// score is how far each value lies above the others, in their own spread. The spread is the larger of two that few
// outliers can't move: that of the middle, and that of the upper tail, because healthy ranks differ by rare large
// amounts (an allocator's segment, a cache), which the middle does not show. floor bounds it below: ranks that are
// equal to the byte would make any difference infinite.
type score struct {
	center, spread float64
	n              int
}

// The upper tail is read at this share of the units, or lower where the odd ones would reach that far: twice fewOdd lie
// above it. Where even a fifth of the units would, nothing is read there.
const (
	tailShare  = 0.98
	leastTail  = 0.8
	madFreedom = 1.36 // variance of the logarithm of a spread from the median deviation, times n (normal values)
)

func scoreOf(values []float64, floor float64) score {
	var known []float64
	for _, v := range values {
		if !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	s := score{center: stats.Median(known), spread: max(floor, stats.Spread(known)), n: len(known)}
	if q := min(tailShare, 1-2*fewOdd/float64(s.n)); q >= leastTail {
		normal := math.Sqrt2 * math.Erfinv(2*q-1) // where a normal distribution has this quantile
		s.spread = max(s.spread, (stats.Quantile(known, q)-s.center)/normal)
	}
	return s
}

// z is a value's distance in spreads with its 95 % interval: err is the value's own standard error, to which that of
// the center comes. The error of the spread is a factor: of six units it may be 2.5 times too small or too large.
func (s score) z(value, err float64) (z, low, high float64) {
	z = (value - s.center) / s.spread
	n := float64(max(1, s.n))
	e := 1.96 * math.Sqrt(err*err/(s.spread*s.spread)+math.Pi/2/n)
	factor := math.Exp(1.96 * math.Sqrt(madFreedom/n))
	low, high = z-e, z+e
	if low > 0 {
		low /= factor
	}
	if high > 0 {
		high *= factor
	}
	return z, low, high
}
