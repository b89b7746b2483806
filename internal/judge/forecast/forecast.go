// Package forecast predicts when a growing memory will meet its limit, and how certain that is. It assumes the shape of
// a training's memory: a floor, to which every step returns, and an amplitude above it that differs from step to step.
// The floor's trend is extrapolated with its uncertainty; the process ends in the first step whose peak crosses the
// limit. The package has pure functions of numbers: it reads, draws and remembers nothing.
//
// It prefers "undecided" to a false alarm. Memory that is released now and then, memory that was taken once, and growth
// that flattens are not extrapolated. One thing can't be known: that memory will be released which never was before.
// The very first rise of a sawtooth looks like a leak.
package forecast

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Point is a stretch of time: a step, a few steps, or the readings of some seconds.
type Point struct {
	Time  float64 // s, at the stretch's end
	Step  float64 // steps done until then; 0 in all points if steps are unknown
	Floor float64 // bytes, the least in the stretch, at FloorAt
	Peak  float64 // bytes, the most, at PeakAt
	// FloorAt and PeakAt are in s: growth within the stretch is no amplitude.
	FloorAt, PeakAt float64
	// Sampled says that both come from readings at random moments, which rarely hit the top of a step.
	Sampled bool
}

// Shape of a series.
type Shape string

const (
	Unclear    Shape = "unclear"    // too little was seen, or the last change is too recent
	Flat       Shape = "flat"       // no growth beyond chance; also after a single rise
	Growing    Shape = "growing"    // linearly
	Saturating Shape = "saturating" // growing ever more slowly: a warm-up, a cache that fills
	Released   Shape = "released"   // grows and is released, again and again: a sawtooth
)

// Forecast is the judgement of one memory. Times are seconds from the last point.
type Forecast struct {
	Shape  Shape
	Reason string // in a few words, for people

	// of the floor, bytes/s, with its 90 % interval; 0 unless Growing or Saturating
	Growth, GrowthLow, GrowthHigh float64
	GrowthPerStep                 float64 // bytes/step; 0 if steps are unknown
	SecondsPerStep                float64 // 0 if steps are unknown
	Amplitude                     float64 // bytes between floor and peak: the 95 % quantile
	// s: how long the growth has had its present form; 0 unless Growing or Saturating
	Watched float64

	Predicted   bool // it will meet the limit, as far as can be seen
	Seconds     float64
	SecondsLow  float64 // 90 % interval
	SecondsHigh float64 // +Inf if there is no upper end
	Steps       float64 // median; 0 if steps are unknown
	// probability that it happens within so many steps, or within so many stretches if steps are unknown
	Within1, Within10, Within100 float64
	WithinMinute                 float64
	// Confidence is the share of the outcomes within 25 % of Seconds, or within a second. For a Flat series it is the
	// certainty that the limit is not met within a minute; otherwise 0.
	Confidence float64

	clears bool // even with the strongest bend that its points allow, it passes the limit
}

const (
	// MinPoints is what a trend needs: with fewer points, three chance steps in a row would count as one.
	MinPoints = 12
	// reach is how far a trend is trusted: so many times as long as it was watched.
	reach = 2
	// significant is the ratio of growth to its standard error that counts. Forecasts are made at every tick, so chance
	// has hundreds of tries: 4.5 sigma lets it through once in 10^5.
	significant = 4.5
)

// Run judges readings, in order of time, against a limit in bytes.
func Run(readings []Reading, limit float64) Forecast {
	points := Points(readings)
	f := predict(points, readings, limit)
	if f.Shape != Flat && f.Shape != Unclear || len(points) >= MaxPoints/2 {
		return f
	}
	// A few stretches of many readings give the floor well, but hide a pause. So predict again from many stretches of
	// few readings.
	if fine := predict(inStretches(readings, MaxPoints), readings, limit); fine.Sure() {
		return fine
	}
	return f
}

func predict(points []Point, readings []Reading, limit float64) Forecast {
	f := Forecast{Shape: Unclear}
	if len(points) < MinPoints {
		f.Reason = fmt.Sprintf("needs about %d more readings", MinPoints-len(points))
		return f
	}
	f.Amplitude = amplitude(points)
	if cycles, sure := releases(points); len(cycles) > 0 {
		return overCycles(f, points, readings, cycles, sure, limit)
	}
	return onTrend(f, points, readings, limit)
}

// onTrend judges a series without releases by its last straight part.
func onTrend(f Forecast, points []Point, readings []Reading, limit float64) Forecast {
	cuts := segments(points)
	last := closer(points[cuts[len(cuts)-1]:], points, readings)
	f.SecondsPerStep = pace(last)
	if len(last) < MinPoints {
		f.Reason = fmt.Sprintf("it has just changed; needs about %d more readings", MinPoints-len(last))
		return f
	}
	l := fit(last)
	if !l.grows(last, limit) || wanders(points, last) {
		f.Shape, f.Reason = Flat, "no growth beyond chance"
		f.Confidence = l.steadiness(limit, f.Amplitude)
		return f
	}
	f.Growth, f.GrowthLow, f.GrowthHigh = l.slope, l.slope-1.645*l.slopeErr, l.slope+1.645*l.slopeErr
	f.GrowthPerStep, f.Watched = f.Growth*f.SecondsPerStep, spanOf(last)+grewAlike(points, cuts, l.slope)
	if l.flattens(last) {
		return flattening(f, last, limit)
	}
	f.Shape, f.Reason = Growing, "the floor grows in a line"
	c := ceiling(slowing(points, cuts, last))
	f.clears = c.possible+f.Amplitude >= limit
	if c.likely+f.Amplitude < limit {
		f.Shape, f.Reason = Saturating, "it seems to grow ever more slowly"
		return f
	}
	f = f.until(l, last, limit)
	if f.Predicted && c.lowest+f.Amplitude < limit { // it may come to nothing
		f.Shape, f.Reason, f.SecondsHigh, f.Confidence = Saturating, "it grows ever more slowly", math.Inf(1),
			f.Confidence/2
	}
	return f
}

// closer divides the last part more finely, if it is a small part of the series.
func closer(last, all []Point, readings []Reading) []Point {
	if len(last) == len(all) || len(last) >= fewPoints {
		return last
	}
	begin := all[len(all)-len(last)-1].Time
	fine := Points(since(readings, math.Nextafter(begin, math.Inf(1))))
	if len(fine) <= len(last) {
		return last
	}
	cuts := segments(fine) // what looked like one change may have been two
	return fine[cuts[len(cuts)-1]:]
}

// grewAlike is how long memory grew at about the same pace before the last part began: so work that pauses is
// recognised.
func grewAlike(points []Point, cuts []int, slope float64) (seconds float64) {
	for k := range len(cuts) - 1 {
		part := points[cuts[k]:cuts[k+1]]
		if len(part) < minSegment {
			continue
		}
		if s := fit(part).slope; s > slope/1.25 && s < slope*1.25 {
			seconds += spanOf(part)
		}
	}
	return seconds
}

// since returns the readings from a time on.
func since(readings []Reading, at float64) []Reading {
	i, _ := slices.BinarySearchFunc(readings, at, func(r Reading, t float64) int { return cmp.Compare(r.Time, t) })
	return readings[i:]
}

// slowing returns the last part together with the parts right before it that grew faster, if there are any: a curve
// that flattens is divided into straight parts too.
func slowing(points []Point, cuts []int, last []Point) []Point {
	begin := len(cuts) - 1
	slope := fit(points[cuts[begin]:]).slope
	for ; begin > 0 && cuts[begin]-cuts[begin-1] >= minSegment; begin-- {
		before := fit(points[cuts[begin-1]:cuts[begin]]).slope
		if before <= slope {
			break
		}
		slope = before
	}
	if begin == len(cuts)-1 {
		return last
	}
	return points[cuts[begin]:]
}

func spanOf(points []Point) float64 { return points[len(points)-1].Time - points[0].Time }

// flattening judges growth that flattens. It is extrapolated only if even its curve, which stays below the line, passes
// the limit.
func flattening(f Forecast, points []Point, limit float64) Forecast {
	f.Shape, f.Reason = Saturating, "it grows ever more slowly"
	tail := points[len(points)*2/3:]
	if len(tail) < MinPoints/2 {
		return f
	}
	l := fit(tail)
	if ceiling := saturation(points); !l.grows(tail, limit) || ceiling+f.Amplitude < limit {
		return f
	}
	f.Growth, f.GrowthLow, f.GrowthHigh = l.slope, l.slope-1.645*l.slopeErr, l.slope+1.645*l.slopeErr
	f.GrowthPerStep = f.Growth * f.SecondsPerStep
	return f.until(l, tail, limit)
}

// until fills in when the limit is met.
func (f Forecast) until(l line, points []Point, limit float64) Forecast {
	d := passage(l, points, limit)
	end := points[len(points)-1]
	first := points[0]
	horizon := reach * max(f.Watched, end.Time-first.Time)
	unit := f.SecondsPerStep
	if unit == 0 {
		unit = (end.Time - first.Time) / float64(len(points)-1)
	}
	f.Within1, f.Within10, f.Within100, f.WithinMinute = d.before(unit), d.before(10*unit), d.before(100*unit),
		d.before(60)
	median := d.quantile(0.5)
	if math.IsInf(median, 1) || median > horizon {
		f.Reason += ", and would meet the limit later than can be foretold yet"
		return f
	}
	f.Predicted, f.Seconds = true, median
	f.SecondsLow, f.SecondsHigh = d.quantile(0.05), d.quantile(0.95)
	off := max(0.25*median, 1)
	f.Confidence = min(0.99, d.before(median+off)-d.before(median-off)) // nothing that has not happened is certain
	if f.SecondsPerStep > 0 {
		f.Steps = f.Seconds / f.SecondsPerStep
	}
	return f
}

// pace is the time that a step takes at present: over the younger half of the points.
func pace(points []Point) float64 {
	if len(points) < 2 {
		return 0
	}
	a, b := points[len(points)/2], points[len(points)-1]
	if len(points) == 2 {
		a = points[0]
	}
	if b.Step <= a.Step {
		return 0
	}
	return (b.Time - a.Time) / (b.Step - a.Step)
}

// Imminent reports that the end is near: more likely than not within the next minute, or the next ten steps.
func (f Forecast) Imminent() bool { return f.Sure() && (f.WithinMinute >= 0.5 || f.Within10 >= 0.5) }

// Sure reports that the forecast is good enough for an alarm: its interval has an end, not far beyond the median.
func (f Forecast) Sure() bool { return f.Predicted && f.SecondsHigh <= 3*f.Seconds+f.SecondsPerStep+1 }
