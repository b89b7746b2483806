package stats

import (
	"cmp"
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
	return quantileIn(slices.Clone(xs), q)
}

// quantileIn is Quantile, and leaves s in another order. It selects, and does not sort: that costs a fifth.
func quantileIn(s []float64, q float64) float64 {
	at := q * float64(len(s)-1)
	i := int(at)
	selectAt(s, i)
	if i+1 >= len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(slices.Min(s[i+1:])-s[i])
}

// selectAt puts the value that stands at k in order there, none above it before, none below it behind (Hoare 1961). NaN
// is below all others.
func selectAt(s []float64, k int) {
	for low, high := 0, len(s)-1; low < high; {
		if high-low < fewToSort {
			slices.Sort(s[low : high+1])
			return
		}
		pivot := middle(s[low], s[low+(high-low)/2], s[high])
		i, j := low, high
		for i <= j {
			for cmp.Less(s[i], pivot) {
				i++
			}
			for cmp.Less(pivot, s[j]) {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return
		}
	}
}

// fewToSort is below how many values sorting is as quick as to divide them further.
const fewToSort = 16

func middle(a, b, c float64) float64 {
	if cmp.Less(b, a) {
		a, b = b, a
	}
	switch {
	case cmp.Less(c, a):
		return a
	case cmp.Less(c, b):
		return c
	}
	return b
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
	if len(dev) == 0 {
		return math.NaN()
	}
	return normalMAD * quantileIn(dev, 0.5)
}

// TheilSen is the median of the slopes between all pairs of points (Sen 1968): up to a third of them may be anything.
// It computes n²/2 slopes, so it is for some hundred points. NaN for fewer than two.
func TheilSen(xs, ys []float64) float64 {
	slopes := make([]float64, 0, len(xs)*(len(xs)-1)/2)
	for i := range xs {
		for j := i + 1; j < len(xs); j++ {
			if dx := xs[j] - xs[i]; dx != 0 {
				slopes = append(slopes, (ys[j]-ys[i])/dx)
			}
		}
	}
	if len(slopes) == 0 {
		return math.NaN()
	}
	return quantileIn(slopes, 0.5)
}
