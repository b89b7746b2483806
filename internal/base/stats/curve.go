package stats

import "math"

// Curve describes how a series rises.
type Curve struct {
	// Evidence is by how much a curve that flattens explains the series better than a line does, by Schwarz's criterion
	// (BIC); below 0 the line is better.
	Evidence float64
	// Pace is the slope of the best flattening curve at the end of the series, as a share of its mean slope: 1 for a
	// line, near 0 for a rise that is over.
	Pace float64
	// Left is how much that curve has still to rise; +Inf where it has no end (a logarithm, a root).
	Left float64

	shape func(x float64) float64 // on x from 0 to 1 over the series; nil where no curve rises
	scale float64
	first float64 // of the series
	width float64
}

// Slope is the curve's mean slope between two points, per unit of the series' x; NaN where no curve rises.
func (c Curve) Slope(from, to float64) float64 {
	if c.shape == nil || to <= from {
		return math.NaN()
	}
	at := func(x float64) float64 { return c.scale * c.shape((x-c.first)/c.width) }
	return (at(to) - at(from)) / (to - from)
}

// bend is a basis function of a curve that flattens, on x from 0 to 1 over the series, with its slope.
type bend struct {
	at, slope func(x float64) float64
	end       float64 // its value at infinity
}

// bends are the shapes in which memory fills up: towards an end, with time constants from a twentieth of the series to
// two of it; as a logarithm (first occurrences of values that repeat); as a root (first occurrences of values from a
// long tail: Heaps' law).
func bends() []bend {
	var list []bend
	for _, tau := range []float64{0.05, 0.1, 0.17, 0.25, 0.35, 0.5, 0.7, 1, 1.4, 2} {
		list = append(list, bend{func(x float64) float64 { return -math.Exp(-x / tau) },
			func(x float64) float64 { return math.Exp(-x/tau) / tau }, 0})
	}
	for _, theta := range []float64{0.003, 0.01, 0.03, 0.1, 0.3, 1} {
		list = append(list, bend{func(x float64) float64 { return math.Log(x + theta) },
			func(x float64) float64 { return 1 / (x + theta) }, math.Inf(1)})
	}
	for _, power := range []float64{0.3, 0.5, 0.7} {
		list = append(list, bend{func(x float64) float64 { return math.Pow(x, power) },
			func(x float64) float64 { return power * math.Pow(math.Max(x, 1e-3), power-1) }, math.Inf(1)})
	}
	return list
}

var allBends = bends()

// FitCurve compares a line with curves that flatten. The correlation of the noise is estimated from the residuals of
// the better of the two: after a wrong shape, any noise would seem to wander.
func FitCurve(xs, ys []float64) Curve {
	n := len(xs)
	if n < 6 || xs[n-1] <= xs[0] {
		return Curve{Evidence: math.Inf(-1), Pace: 1, Left: math.Inf(1)}
	}
	unit := make([]float64, n)
	for i := range xs {
		unit[i] = (xs[i] - xs[0]) / (xs[n-1] - xs[0])
	}
	shapes := make([][]float64, len(allBends))
	for k, b := range allBends {
		shapes[k] = make([]float64, n)
		for i, x := range unit {
			shapes[k][i] = b.at(x)
		}
	}
	_, _, straight := compare(unit, shapes, ys, 0)
	alpha, t := persistence(straight)
	if t > unitRoot {
		alpha = 1
	}
	best, evidence, _ := compare(unit, shapes, ys, max(0, alpha))
	if best < 0 {
		return Curve{Evidence: evidence, Pace: 1, Left: math.Inf(1)}
	}
	b := allBends[best]
	design := withConstant(shapes[best], 0)
	scale := 0.0
	if fit, ok := leastSquares(design, whiten(ys, 0)); ok {
		scale = max(0, fit.b[1])
	}
	return Curve{Evidence: evidence, Pace: b.slope(1) / (b.at(1) - b.at(0)), Left: scale * (b.end - b.at(1)),
		shape: b.at, scale: scale, first: xs[0], width: xs[n-1] - xs[0]}
}

// compare finds the best rising bend (-1 for none), Schwarz's criterion in favour of it, and the residuals of the
// better one.
func compare(unit []float64, shapes [][]float64, ys []float64, alpha float64) (best int, evidence float64,
	rest []float64) {
	target := whiten(ys, alpha)
	m := float64(len(target))
	design := withConstant(unit, alpha)
	line, _ := leastSquares(design, target)
	rest = line.rest(design, target)
	best, found := -1, math.Inf(1)
	for k := range shapes {
		bent := withConstant(shapes[k], alpha)
		fit, ok := leastSquares(bent, target)
		if !ok || fit.rss >= found || fit.b[len(fit.b)-1] <= 0 {
			continue
		}
		best, found = k, fit.rss
		if fit.rss < line.rss {
			rest = fit.rest(bent, target)
		}
	}
	tiny := line.rss*1e-12 + 1e-300
	return best, m*math.Log((line.rss+tiny)/(found+tiny)) - math.Log(m), rest // one parameter more: the bend
}

// whiten subtracts from each point what remains of the one before.
func whiten(ys []float64, alpha float64) []float64 {
	out := make([]float64, len(ys)-1)
	for i := range out {
		out[i] = ys[i+1] - alpha*ys[i]
	}
	return out
}

// withConstant is the design of a basis function and a constant, whitened; the constant vanishes at alpha 1.
func withConstant(values []float64, alpha float64) [][]float64 {
	column := whiten(values, alpha)
	if alpha >= 1 {
		return [][]float64{column}
	}
	ones := make([]float64, len(column))
	for i := range ones {
		ones[i] = 1 - alpha
	}
	return [][]float64{ones, column}
}

type solution struct {
	b       []float64
	inverse [][]float64 // of the normal matrix; 2 by 2 or 1 by 1
	rss     float64
}

// leastSquares solves for one or two columns.
func leastSquares(columns [][]float64, y []float64) (s solution, ok bool) {
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	if len(columns) == 1 {
		aa := dot(columns[0], columns[0])
		if aa == 0 {
			return s, false
		}
		s.b, s.inverse = []float64{dot(columns[0], y) / aa}, [][]float64{{1 / aa}}
	} else {
		a, b := columns[0], columns[1]
		aa, ab, bb := dot(a, a), dot(a, b), dot(b, b)
		det := aa*bb - ab*ab
		if det <= 1e-14*aa*bb {
			return s, false
		}
		s.inverse = [][]float64{{bb / det, -ab / det}, {-ab / det, aa / det}}
		ay, by := dot(a, y), dot(b, y)
		s.b = []float64{(bb*ay - ab*by) / det, (aa*by - ab*ay) / det}
	}
	for _, e := range s.rest(columns, y) {
		s.rss += e * e
	}
	return s, true
}

// rest returns the residuals of the solution.
func (s solution) rest(columns [][]float64, y []float64) []float64 {
	out := make([]float64, len(y))
	if s.b == nil {
		return out
	}
	for i := range y {
		out[i] = y[i]
		for j, c := range columns {
			out[i] -= s.b[j] * c[i]
		}
	}
	return out
}
