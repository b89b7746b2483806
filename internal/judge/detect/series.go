package detect

import (
	"math"
	"slices"

	"github.com/memgauge/memgauge/internal/base/stats"
)

// Verdict on one memory or on a run.
type Verdict string

// The verdicts.
const (
	Leak      Verdict = "leak"
	Healthy   Verdict = "healthy"
	Undecided Verdict = "undecided"
)

// Series is one memory of one process, at step ends. Steps[i] is the number of the step whose end Bytes[i] was read at;
// both are in order of time. A reading that is NaN was not taken.
type Series struct {
	Steps []float64
	Bytes []float64
}

// clean gives the readings that are usable: finite, in order, one for each step. Of several at a step the lowest
// counts; a step number that goes back (a process that began to count anew) ends what came before.
func (s Series) clean() Series {
	most := min(len(s.Steps), len(s.Bytes))
	out := Series{make([]float64, 0, most), make([]float64, 0, most)}
	for i := range most {
		x, y := s.Steps[i], s.Bytes[i]
		if math.IsNaN(x+y) || math.IsInf(x+y, 0) {
			continue
		}
		n := len(out.Steps)
		switch {
		case n > 0 && x < out.Steps[n-1]:
			out = Series{out.Steps[:0], out.Bytes[:0]}
		case n > 0 && x == out.Steps[n-1]:
			out.Bytes[n-1] = min(out.Bytes[n-1], y)
			continue
		}
		out.Steps, out.Bytes = append(out.Steps, x), append(out.Bytes, y)
	}
	return out
}

// from gives the readings from a step on.
func (s Series) from(step float64) Series {
	i, _ := slices.BinarySearch(s.Steps, step)
	return Series{s.Steps[i:], s.Bytes[i:]}
}

// until gives the readings before a step.
func (s Series) until(step float64) Series {
	i, _ := slices.BinarySearch(s.Steps, step)
	return Series{s.Steps[:i], s.Bytes[:i]}
}

func (s Series) width() float64 {
	if len(s.Steps) == 0 {
		return 0
	}
	return s.Steps[len(s.Steps)-1] - s.Steps[0]
}

// lowest is the lowest reading; +Inf of none.
func (s Series) lowest() float64 {
	if len(s.Bytes) == 0 {
		return math.Inf(1)
	}
	return slices.Min(s.Bytes)
}

// floors divides the series into at most n stretches of equal length and takes the lowest reading of each: what a step
// always comes back to. Evaluation, checkpoints and odd batches rise above it, and it need not know when they are. The
// first and the last stretch must be whole ones, or their floors would be too high.
func (s Series) floors(n int) Series {
	width := s.width() / float64(n)
	if width <= 0 || len(s.Steps) <= n {
		return s
	}
	var out Series
	block := -1
	for i, x := range s.Steps {
		b := min(int((x-s.Steps[0])/width), n-1)
		last := len(out.Steps) - 1
		if b != block {
			block = b
			out.Steps, out.Bytes = append(out.Steps, x), append(out.Bytes, s.Bytes[i])
		} else if s.Bytes[i] < out.Bytes[last] {
			out.Steps[last], out.Bytes[last] = x, s.Bytes[i]
		}
	}
	return out
}

// noise is what neighbouring floors differ by without any trend: the distance of each from the line between its
// neighbours. Outliers don't move it.
func (s Series) noise() float64 {
	var d []float64
	for i := 1; i+1 < len(s.Bytes); i++ {
		share := (s.Steps[i] - s.Steps[i-1]) / (s.Steps[i+1] - s.Steps[i-1])
		d = append(d, s.Bytes[i]-s.Bytes[i-1]-share*(s.Bytes[i+1]-s.Bytes[i-1]))
	}
	if len(d) == 0 {
		return 0
	}
	return stats.Spread(d) / math.Sqrt(1.5) // the variance of such a distance is 1 + ¼ + ¼ times one floor's
}
