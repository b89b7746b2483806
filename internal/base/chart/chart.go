// Package chart draws memory over time as a PNG, or as an SVG for a page: series with their unit, the limits that bind
// them, and events. It does not know where the numbers come from.
package chart

import (
	"math"
)

// Chart is panels one below the other over the same time.
type Chart struct {
	Title  string
	Note   string  // a smaller line under the title: what the chart shows
	Across string  // the unit of X, if it isn't seconds
	Begin  float64 // where X begins
	Panels []Panel
	Events []Event
}

// Panel has its own axis of values.
type Panel struct {
	Title  string
	Unit   Unit
	Series []Series
	Levels []Level
	Bars   []Bar // a distribution, in place of series
}

// Unit of a panel's values.
type Unit int

const (
	Bytes   Unit = iota // drawn in the binary unit that fits
	Percent             // 0 to 100
	Count
	BytesPerSecond
)

// Series is a line. X is in seconds from the chart's beginning; a NaN in Y interrupts it.
type Series struct {
	Name string
	X, Y []float64
	Area bool // filled down to zero
	Thin bool // dashed, in the background: a forecast, a peak
	// Low and High, one for each X, are the band in which Y lies; nil for none.
	Low, High []float64
}

// Level is a horizontal line with its name, such as a limit.
type Level struct {
	Name  string
	Value float64
	Alarm bool // drawn as a limit that must not be crossed
}

// Event is a moment with a short text.
type Event struct {
	Seconds float64
	Text    string
	Bad     bool
}

// Bar is one class of a distribution.
type Bar struct {
	Label string
	Value float64
}

// maxPoints of a series are drawn: more than the pixels of a line.
const maxPoints = 2400

// thin keeps the lowest and the highest value of each group of points, so that no peak is lost.
func thin(s Series) (x, y []float64) {
	n := len(s.X)
	if n <= maxPoints {
		return s.X, s.Y
	}
	size := (2*n + maxPoints - 1) / maxPoints
	for i := 0; i < n; i += size {
		lo, hi := extremes(s.Y, i, min(i+size, n))
		for _, k := range []int{min(lo, hi), max(lo, hi)} {
			if len(x) == 0 || x[len(x)-1] != s.X[k] {
				x, y = append(x, s.X[k]), append(y, s.Y[k])
			}
		}
	}
	return x, y
}

func extremes(y []float64, from, to int) (lo, hi int) {
	lo, hi = from, from
	for i := from; i < to; i++ {
		if math.IsNaN(y[i]) { // an interruption must stay one
			return i, i
		}
		if y[i] < y[lo] {
			lo = i
		}
		if y[i] > y[hi] {
			hi = i
		}
	}
	return lo, hi
}

// highest returns the highest value of a panel. Alarm levels count only if they are close enough to be of interest.
func (p Panel) highest() float64 {
	top := 0.0
	for _, s := range p.Series {
		for _, y := range s.Y {
			if !math.IsNaN(y) && !math.IsInf(y, 0) {
				top = max(top, y)
			}
		}
		for _, y := range s.High {
			top = max(top, y)
		}
	}
	for _, b := range p.Bars {
		top = max(top, b.Value)
	}
	return top
}

// lowest returns the lowest value of a panel.
func (p Panel) lowest() float64 {
	low := math.Inf(1)
	for _, s := range p.Series {
		for _, y := range s.Y {
			if !math.IsNaN(y) {
				low = min(low, y)
			}
		}
	}
	if math.IsInf(low, 1) {
		return 0
	}
	return low
}

// far reports that a level lies so high that the series would be flat beside it; it is then named at the top edge.
func (p Panel) far(l Level) bool { return l.Value > 3*p.highest() }

func (c Chart) duration() float64 {
	end := 0.0
	for _, p := range c.Panels {
		for _, s := range p.Series {
			if n := len(s.X); n > 0 {
				end = max(end, s.X[n-1])
			}
		}
	}
	for _, e := range c.Events {
		end = max(end, e.Seconds)
	}
	return max(end, 1)
}
