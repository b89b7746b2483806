package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Trend is a line through points in order, with what is known about the noise around it.
type Trend struct {
	Slope, Err float64 // per unit of x, and its standard error
	Noise      float64 // standard deviation about the line; of one increment where the noise wanders
	Alpha      float64 // share of a deviation that remains at the next point; 1 where it wanders
	Freedom    float64 // degrees of freedom of Err
	N          int
}

// Ratio is the slope in standard errors.
func (t Trend) Ratio() float64 {
	if t.Err == 0 {
		return math.Inf(sign(t.Slope))
	}
	return t.Slope / t.Err
}

func sign(x float64) int {
	if x < 0 {
		return -1
	}
	return 1
}

// Interval contains the slope with the given probability.
func (t Trend) Interval(p float64) (low, high float64) {
	if t.Freedom < 1 {
		return math.Inf(-1), math.Inf(1)
	}
	half := distuv.StudentsT{Sigma: 1, Nu: t.Freedom}.Quantile(0.5+p/2) * t.Err
	return t.Slope - half, t.Slope + half
}

// P is the probability of so steep a rise by chance alone, one-sided.
func (t Trend) P() float64 {
	if t.Freedom < 1 || math.IsNaN(t.Slope) {
		return 1
	}
	return distuv.StudentsT{Sigma: 1, Nu: t.Freedom}.Survival(t.Ratio())
}

// unitRoot is the t statistic below which noise returns to the line: 1 in 50 random walks about a line is below −3.3
// (between the 5 % and the 1 % of Elliott, Rothenberg and Stock 1996, table I.C, 100 points: −3.03 and −3.58).
const unitRoot = -3.3

// FitTrend fits a line and finds the error of its slope without an assumption about the kind of noise. A test for a
// unit root recognises noise that returns to the line (white, or autoregressive), which is weighted by Prais–Winsten.
// Other noise counts as a random walk, whose drift is the mean of its increments. So a wandering level is not mistaken
// for a trend (Perron and Yabu 2009 make the same choice). Points should be about evenly spaced.
func FitTrend(xs, ys []float64) Trend {
	n := len(xs)
	if n < 4 || xs[n-1] <= xs[0] {
		return Trend{Slope: math.NaN(), Err: math.Inf(1), N: n}
	}
	if alpha, returns := comesBack(xs, ys); returns {
		return fitReturning(xs, ys, unbias(alpha, n))
	}
	return fitWandering(xs, ys)
}

// comesBack distinguishes noise that returns to the line from noise that wanders off, by the test of Elliott,
// Rothenberg and Stock (DF-GLS), which needs half as many points as Dickey and Fuller's. alpha is the share of a
// deviation that remains at the next point.
func comesBack(xs, ys []float64) (alpha float64, returns bool) {
	n := len(xs)
	near := 1 - 13.5/float64(n) // where half of all walks would be detected: the authors' choice
	design := [][]float64{make([]float64, n), make([]float64, n)}
	target := make([]float64, n)
	design[0][0] = 1
	for i := 1; i < n; i++ {
		design[0][i], design[1][i] = 1-near, (xs[i]-xs[0])-near*(xs[i-1]-xs[0])
		target[i] = (ys[i] - ys[0]) - near*(ys[i-1]-ys[0])
	}
	fit, ok := leastSquares(design, target)
	if !ok {
		return 1, false
	}
	rest := make([]float64, n)
	for i := range rest {
		rest[i] = ys[i] - ys[0] - fit.b[0] - fit.b[1]*(xs[i]-xs[0])
	}
	if _, t := persistence(rest); t >= unitRoot {
		return 1, false
	}
	alpha, _ = persistence(residuals(xs, ys))
	return alpha, true
}

// persistence regresses deviations on the ones before, and returns Dickey and Fuller's t. More lags would cost power:
// floors of memory have no finer structure.
func persistence(res []float64) (alpha, t float64) {
	var xx, xy float64
	for i := 1; i < len(res); i++ {
		xx += res[i-1] * res[i-1]
		xy += res[i-1] * res[i]
	}
	if xx == 0 {
		return 0, math.Inf(-1) // no noise at all
	}
	alpha = xy / xx
	var rss float64
	for i := 1; i < len(res); i++ {
		e := res[i] - alpha*res[i-1]
		rss += e * e
	}
	se := math.Sqrt(rss / float64(len(res)-2) / xx)
	if se == 0 {
		return alpha, 0
	}
	return alpha, (alpha - 1) / se
}

// unbias corrects the estimate for the line that was fitted before: it is (2 + 4α)/n too low (Marriott and Pope 1954,
// with a trend).
func unbias(alpha float64, n int) float64 {
	return math.Max(0, math.Min(0.97, alpha+(2+4*alpha)/float64(n)))
}

// fitReturning fits the line by Prais–Winsten: each point less α of the one before, the first one scaled to the same
// noise. Points are taken relative to the first, so that large numbers cost no digits.
func fitReturning(xs, ys []float64, alpha float64) Trend {
	n := len(xs)
	design := [][]float64{make([]float64, n), make([]float64, n)}
	w := make([]float64, n)
	first := math.Sqrt(1 - alpha*alpha)
	design[0][0], design[1][0], w[0] = first, 0, 0
	for i := 1; i < n; i++ {
		design[0][i], design[1][i], w[i] = 1-alpha, (xs[i]-xs[0])-alpha*(xs[i-1]-xs[0]),
			(ys[i]-ys[0])-alpha*(ys[i-1]-ys[0])
	}
	fit, ok := leastSquares(design, w)
	if !ok {
		return Trend{Slope: math.NaN(), Err: math.Inf(1), N: n}
	}
	variance := fit.rss / float64(n-2)
	return Trend{Slope: fit.b[1], Err: math.Sqrt(variance * fit.inverse[1][1]), Noise: math.Sqrt(variance) / first,
		Alpha: alpha, Freedom: float64(n - 2), N: n}
}

// fitWandering assumes that the noise is a random walk: the slope is the total change over the distance, the error
// comes from the scatter of the steps.
func fitWandering(xs, ys []float64) Trend {
	n := len(xs)
	width := (xs[n-1] - xs[0]) / float64(n-1)
	slope := (ys[n-1] - ys[0]) / (xs[n-1] - xs[0])
	var ss float64
	for i := 1; i < n; i++ {
		e := ys[i] - ys[i-1] - slope*(xs[i]-xs[i-1])
		ss += e * e
	}
	sd := math.Sqrt(ss / float64(n-2))
	return Trend{Slope: slope, Err: sd / math.Sqrt(float64(n-1)) / width, Noise: sd, Alpha: 1, Freedom: float64(n - 2),
		N: n}
}

// residuals about the least-squares line.
func residuals(xs, ys []float64) []float64 {
	n := float64(len(xs))
	var mx, my, sxx, sxy float64
	for i := range xs {
		mx, my = mx+xs[i]/n, my+ys[i]/n
	}
	for i := range xs {
		sxx += (xs[i] - mx) * (xs[i] - mx)
		sxy += (xs[i] - mx) * (ys[i] - my)
	}
	res := make([]float64, len(xs))
	for i := range xs {
		res[i] = ys[i] - my - sxy/sxx*(xs[i]-mx)
	}
	return res
}
