package chart

import (
	"math"
	"strconv"
)

// scale converts base units into what an axis shows.
type scale struct {
	per  float64 // base units in one shown unit
	name string
}

// byteScale takes the largest unit in which the highest value is at least two.
func byteScale(top float64, perSecond bool) scale {
	names := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	s := scale{1, names[0]}
	for i, name := range names {
		if size := math.Pow(1024, float64(i)); top >= 2*size {
			s = scale{size, name}
		}
	}
	if perSecond {
		s.name += "/s"
	}
	return s
}

// timeScale takes seconds, minutes or hours.
func timeScale(seconds float64) scale {
	switch {
	case seconds > 3*3600:
		return scale{3600, "time (hours from the start)"}
	case seconds > 300:
		return scale{60, "time (minutes from the start)"}
	}
	return scale{1, "time (seconds from the start)"}
}

func (p Panel) scale() scale {
	switch p.Unit {
	case Percent:
		return scale{1, "%"}
	case Count:
		return scale{1, "number"}
	}
	top := p.highest()
	for _, l := range p.Levels {
		if !p.far(l) {
			top = max(top, l.Value)
		}
	}
	return byteScale(top, p.Unit == BytesPerSecond)
}

// tick is a value of an axis, in the axis's unit.
type tick struct {
	value float64
	label string
}

// ticks marks 4 to 9 round values, with as many digits as distinguish them.
func (a axis) ticks() (out []tick) {
	step := roundStep((a.hi - a.lo) / 5)
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	for i := math.Ceil(a.lo/step - 1e-9); i*step <= a.hi+step*1e-9; i++ {
		value := i*step + 0 // no negative zero
		out = append(out, tick{value, strconv.FormatFloat(value, 'f', digits, 64)})
	}
	return out
}

// roundStep returns the next of 1, 2, 5 times a power of ten.
func roundStep(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*base >= x*0.999 {
			return m * base
		}
	}
	return 10 * base
}
