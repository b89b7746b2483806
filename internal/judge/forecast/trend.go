package forecast

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// line is the floor's trend over time.
type line struct {
	mean, at float64 // bytes at time at, the centre of the points
	slope    float64 // bytes/s
	slopeErr float64 // its standard error
	// the same if only noise disturbs the line, corrected for the correlation of neighbours
	fitErr    float64
	meanErr   float64
	roam      float64 // bytes per √s: how far the floor strays from a line; 0 if it keeps to one
	walks     bool    // it continues from where it is, not from the line
	drift     float64 // bytes/s: by how much the slope itself differs between quarters of the time
	noise     float64 // standard deviation of the residuals, bytes
	end, last float64 // time and floor of the line's last point
	spacing   float64 // s between points
}

// unsteady is the least difference between the growth to come and the growth so far, as a share of the latter. Measured
// on 20 processes that grew at a constant rate in each step until the kernel killed them, on a machine that others used
// too: the rate in time of the second half of the life differed from that of the first by 7 % in the median, and for
// two of them by 32 and 43 %.
const unsteady = 0.08

// fit is a least squares fit. Residuals that resemble their neighbours count for less (first-order autoregression). A
// floor that moves by independent increments is extrapolated from where it is.
func fit(points []Point) line {
	x, y := times(points), floors(points)
	n := float64(len(points))
	icept, slope := stat.LinearRegression(x, y, recent(x), false)
	l := line{slope: slope, at: stat.Mean(x, recent(x)), end: points[len(points)-1].Time,
		spacing: (x[len(x)-1] - x[0]) / (n - 1)}
	l.mean = icept + slope*l.at
	res := residuals(x, y, icept, slope)
	rss := 0.0
	for _, r := range res {
		rss += r * r
	}
	l.noise = math.Sqrt(rss / (n - 2))
	rho := min(max(lagOne(res), 0), 0.95)
	widen := math.Sqrt((1 + rho) / (1 - rho))
	sxx := stat.Variance(x, nil) * (n - 1)
	l.fitErr, l.meanErr = l.noise/math.Sqrt(sxx)*widen, l.noise/math.Sqrt(n)*widen
	l.last = l.mean + slope*(l.end-l.at)
	l.roam = roaming(points, x, y, slope)
	l.slopeErr = max(l.fitErr, l.roam/math.Sqrt(l.end-x[0]))
	l.drift = max(slopeDrift(points), unsteady*math.Abs(slope))
	if rho > 0.6 { // not a line with noise around it, but a walk with a drift: it continues from where it is
		l.last, l.meanErr, l.walks = y[len(y)-1]+slope*(l.end-x[len(x)-1]), 0, true
	}
	return l
}

// recent weighs points by their age: the present says more about the future than the past does.
func recent(x []float64) []float64 {
	w := make([]float64, len(x))
	end, span := x[len(x)-1], x[len(x)-1]-x[0]
	for i := range x {
		w[i] = math.Exp((x[i] - end) / (memory * span))
	}
	return w
}

// memory is the share of the series after which a point's weight has fallen to a third.
const memory = 0.3

// roaming is the part of the moves that adds up instead of averaging out, in bytes per √s: how much more the floor
// deviates from its line over many points than over one. An uneven pace of the steps alone causes some.
func roaming(points []Point, x, y []float64, slope float64) float64 {
	lag := max(2, len(y)/8)
	one, many := moves(x, y, slope, 1), moves(x, y, slope, lag)
	spacing := (x[len(x)-1] - x[0]) / float64(len(x)-1)
	uneven := make([]float64, 0, len(x)-1)
	for i := 1; i < len(x); i++ {
		uneven = append(uneven, points[i].Time-points[i-1].Time)
	}
	grown := max(0, (many-one)/float64(lag-1))
	return math.Sqrt((grown + slope*slope*stat.Variance(uneven, nil)) / spacing)
}

// moves is the mean square of the moves over so many points, relative to the line.
func moves(x, y []float64, slope float64, lag int) float64 {
	sum := 0.0
	for i := lag; i < len(y); i++ {
		d := y[i] - y[i-lag] - slope*(x[i]-x[i-lag])
		sum += d * d
	}
	return sum / float64(len(y)-lag)
}

// ahead returns the trend at s seconds after its last point, and its standard error there.
func (l *line) ahead(s float64) (value, err float64) {
	value = l.last + l.slope*s
	lever := l.end + s - l.at
	if l.walks {
		lever = s
	}
	return value, math.Sqrt(l.meanErr*l.meanErr + lever*lever*l.slopeErr*l.slopeErr + l.roam*l.roam*s +
		l.drift*l.drift*s*s)
}

// slopeDrift is the standard deviation of the slopes of four quarters, less what noise alone would cause: a job that
// shares its machine has no constant pace. 0 if there are too few points.
func slopeDrift(points []Point) float64 {
	const parts = 4
	size := len(points) / parts
	if size < 5 {
		return 0
	}
	var slopes []float64
	noise := 0.0
	for i := range parts {
		part := points[i*size : (i+1)*size]
		x, y := times(part), floors(part)
		icept, slope := stat.LinearRegression(x, y, nil, false)
		rss := 0.0
		for _, r := range residuals(x, y, icept, slope) {
			rss += r * r
		}
		slopes = append(slopes, slope)
		noise += rss / float64(size-2) / (stat.Variance(x, nil) * float64(size-1)) / parts
	}
	return math.Sqrt(max(0, stat.Variance(slopes, nil)-noise))
}

// grows reports whether the growth is more than chance, more than a trifle, and continues to the end.
func (l *line) grows(points []Point, limit float64) bool {
	span := points[len(points)-1].Time - points[0].Time
	rise := l.slope * span
	if l.slope <= significant*l.slopeErr || rise < 1e-3*limit {
		return false
	}
	third := len(points) / 3
	early, middle, late := level(points[:third]), level(points[third:2*third]), level(points[2*third:])
	return middle > early && late-middle > 0.1*rise && late > early+0.4*rise
}

// steadiness is the certainty that the limit is not met within a minute, for a floor that shows no growth: the
// uncertainty of the slope may hide growth.
func (l *line) steadiness(limit, amplitude float64) float64 {
	room := max(0, limit-l.last-amplitude)
	err := max(l.slopeErr, 1) // bytes/s
	return min(0.99, distuv.UnitNormal.CDF((room/60-max(l.slope, 0))/err))
}

// wanders reports that the rise of the last part is no more than what the floor has fallen by before: it goes up and
// down by itself. A rise that makes up most of the series, for example after the start's own ups and downs, is a trend
// anyhow.
func wanders(all, last []Point) bool {
	if spanOf(last) >= 0.6*spanOf(all) {
		return false
	}
	top, fall := all[0].Floor, 0.0
	for _, p := range all {
		top = max(top, p.Floor)
		fall = max(fall, top-p.Floor)
	}
	return last[len(last)-1].Floor-last[0].Floor < 2*fall
}

// A part bends down when its curvature is so many standard errors below zero: probably, and certainly.
const (
	seemsToBend = 1.5
	bends       = 2.5
)

// ceilings are levels to which growth may tend if it flattens exponentially, according to the curvature of the points;
// +Inf if it continues.
type ceilings struct {
	likely   float64 // by the estimated curvature
	lowest   float64 // two standard errors lower, where the points certainly bend
	possible float64 // the same whether they bend or not
}

func ceiling(points []Point) ceilings {
	c := ceilings{math.Inf(1), math.Inf(1), math.Inf(1)}
	x, y := times(points), floors(points)
	n := float64(len(x))
	mean := stat.Mean(x, nil)
	var s2, s3, s4 float64
	for i := range x {
		x[i] -= mean
		d := x[i] * x[i]
		s2, s3, s4 = s2+d, s3+d*x[i], s4+d*d
	}
	if s2 == 0 {
		return c
	}
	// q is x² made orthogonal to 1 and x.
	q := make([]float64, len(x))
	var qq, qy, xy float64
	for i := range x {
		q[i] = x[i]*x[i] - s2/n - s3/s2*x[i]
		qq, qy, xy = qq+q[i]*q[i], qy+q[i]*y[i], xy+x[i]*y[i]
	}
	if qq <= 0 {
		return c
	}
	bend, level, rate := qy/qq, stat.Mean(y, nil), xy/s2
	res, rss := make([]float64, len(x)), 0.0
	for i := range x {
		res[i] = y[i] - level - rate*x[i] - bend*q[i]
		rss += res[i] * res[i]
	}
	rho := min(max(lagOne(res), 0), 0.95)
	err := math.Sqrt(rss/(n-3)/qq) * math.Sqrt((1+rho)/(1-rho))
	slope := rate - bend*s3/s2            // at the middle
	tends := func(bend float64) float64 { // y″ = −y′/τ, and what is left to rise is y′·τ
		return level - bend*s2/n + slope*slope/(-2*bend)
	}
	if slope > 0 && bend < 2*err {
		c.possible = tends(bend - 2*err)
	}
	if slope > 0 && bend < -seemsToBend*err {
		c.likely = tends(bend)
	}
	if slope > 0 && bend < -bends*err {
		c.lowest = c.possible
	}
	return c
}

// flattens reports whether growth clearly slows down: the later half is slower than the earlier by far more than the
// errors allow, and by at least a third.
func (l *line) flattens(points []Point) bool {
	half := len(points) / 2
	if half < 4 {
		return false
	}
	a, b := fit(points[:half]), fit(points[half:])
	gap, err := a.slope-b.slope, math.Hypot(a.fitErr, b.fitErr)
	return gap > 3*err && b.slope < 0.67*a.slope
}

// saturation is the level to which a curve of three equally long thirds tends, if each rise is a fixed share of the
// rise before (an exponential approach); +Inf if they do not shrink.
func saturation(points []Point) float64 {
	n := len(points) / 3
	a, b, c := level(points[:n]), level(points[n:2*n]), level(points[2*n:])
	if b <= a || c-b >= b-a {
		return math.Inf(1)
	}
	q := max(0, (c-b)/(b-a))
	return c + (c-b)*q/(1-q) + math.Abs(c-b) // the last third's own level lies half a third back
}

// level is the median floor.
func level(points []Point) float64 {
	y := floors(points)
	slices.Sort(y)
	return stat.Quantile(0.5, stat.LinInterp, y, nil)
}

func times(points []Point) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.FloorAt
	}
	return out
}

func floors(points []Point) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.Floor
	}
	return out
}

func residuals(x, y []float64, icept, slope float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = y[i] - icept - slope*x[i]
	}
	return out
}

// lagOne is the autocorrelation of neighbours.
func lagOne(res []float64) float64 {
	var num, den float64
	for i, r := range res {
		den += r * r
		if i > 0 {
			num += r * res[i-1]
		}
	}
	if den == 0 {
		return 0
	}
	return num / den
}

// amplitude is the 95 % quantile of peak over floor.
func amplitude(points []Point) float64 {
	a := risesOf(points)
	return stat.Quantile(0.95, stat.Empirical, a, nil)
}

// risesOf are peaks over their floors, sorted.
func risesOf(points []Point) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = max(0, p.Peak-p.Floor)
	}
	slices.Sort(out)
	return out
}
