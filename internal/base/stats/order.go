package stats

import (
	"math"
	"slices"
)

// Median of xs; NaN for none.
func Median(xs []float64) float64 { return Quantile(xs, 0.5) }

// Quantile q of xs, interpolated between neighbours; NaN for none.
func Quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// normalMAD turns a median absolute deviation into the standard deviation of normal noise.
const normalMAD = 1.4826

// Spread is a standard deviation that outliers don't affect: from the median absolute deviation.
func Spread(xs []float64) float64 {
	m := Median(xs)
	dev := make([]float64, len(xs))
	for i, x := range xs {
		dev[i] = math.Abs(x - m)
	}
	return normalMAD * Median(dev)
}

// TheilSen is the median of the slopes between all pairs of points (Sen 1968): up to a third of them may be anything.
// It computes n²/2 slopes, so it is for some hundred points. NaN for fewer than two.
func TheilSen(xs, ys []float64) float64 {
	var slopes []float64
	for i := range xs {
		for j := i + 1; j < len(xs); j++ {
			if dx := xs[j] - xs[i]; dx != 0 {
				slopes = append(slopes, (ys[j]-ys[i])/dx)
			}
		}
	}
	return Median(slopes)
}
