package forecast

import (
	"math"
	"slices"
)

const (
	minSegment = 6 // points on each side of a change; freshJump finds changes nearer to the end
	// penalty in nats·2 for one more segment (two coefficients and a place): four times that of BIC, since drifting
	// noise looks like changes.
	penaltyFactor = 12
	// trifle is the share of a series' range below which a change does not count, however certain it is: an uneven pace
	// bends any line.
	trifle     = 0.01
	maxChanges = 6 // a series with more changes has no trend anyhow
)

// segments returns where the straight parts of a series begin; the first begins at 0. The last one comes after loading,
// after a rise that happened once, and after the change from flat to growing.
func segments(points []Point) []int {
	cuts := []int{0}
	if i := freshJump(points); i > 0 {
		return append(cuts, i)
	}
	x, y := times(points), floors(points)
	from := 0
	for range maxChanges {
		cut := bestCut(x[from:], y[from:])
		if cut == 0 {
			break
		}
		from += cut
		cuts = append(cuts, from)
	}
	return cuts
}

// bestCut divides a series into two lines; 0 if one line fits as well.
func bestCut(x, y []float64) int {
	n := len(x)
	if n < 2*minSegment {
		return 0
	}
	s := newSums(x, y)
	whole := s.rss(0, n)
	if math.Sqrt(whole/float64(n)) < trifle*(slices.Max(y)-slices.Min(y)) {
		return 0
	}
	best, at := whole, 0
	for i := minSegment; i <= n-minSegment; i++ {
		if r := s.rss(0, i) + s.rss(i, n); r < best {
			best, at = r, i
		}
	}
	tiny := 1e-12 * (s.yy[n] + 1) // of a series that fits exactly
	gain := float64(n) * math.Log((whole+tiny)/(best+tiny))
	if at == 0 || gain < penaltyFactor*math.Log(float64(n)) {
		return 0
	}
	return at
}

// freshJump finds a rise among the last few points that exceeds all before: nothing can be predicted after it.
func freshJump(points []Point) int {
	n := len(points)
	if n < 2*minSegment {
		return 0
	}
	y := floors(points)
	span := slices.Max(y) - slices.Min(y)
	for i := n - minSegment + 1; i < n; i++ {
		l := fit(points[:i])
		jump := points[i].Floor - (l.last + l.slope*(points[i].Time-l.end))
		usual := max(6*l.noise, 2*trifle*span, 5*math.Abs(l.slope)*l.spacing, 4*typicalMove(points[:i]))
		if jump > usual && jump > 1e-3*points[i].Floor {
			return i
		}
	}
	return 0
}

// typicalMove is the largest move of the floor between neighbours so far: growth in stairs is no jump.
func typicalMove(points []Point) float64 {
	m := 0.0
	for i := 1; i < len(points); i++ {
		m = max(m, math.Abs(points[i].Floor-points[i-1].Floor))
	}
	return m
}

// sums give the residual sum of squares of any stretch in constant time.
type sums struct{ x, y, xx, xy, yy []float64 }

func newSums(x, y []float64) sums {
	n := len(x)
	s := sums{make([]float64, n+1), make([]float64, n+1), make([]float64, n+1), make([]float64, n+1),
		make([]float64, n+1)}
	x0, y0 := x[0], y[0] // small numbers lose no digits when they are squared
	for i := range n {
		a, b := x[i]-x0, y[i]-y0
		s.x[i+1], s.y[i+1] = s.x[i]+a, s.y[i]+b
		s.xx[i+1], s.xy[i+1], s.yy[i+1] = s.xx[i]+a*a, s.xy[i]+a*b, s.yy[i]+b*b
	}
	return s
}

func (s sums) rss(i, j int) float64 {
	n := float64(j - i)
	x, y := s.x[j]-s.x[i], s.y[j]-s.y[i]
	sxx := s.xx[j] - s.xx[i] - x*x/n
	sxy := s.xy[j] - s.xy[i] - x*y/n
	syy := s.yy[j] - s.yy[i] - y*y/n
	if sxx <= 0 {
		return max(0, syy)
	}
	return max(0, syy-sxy*sxy/sxx)
}
