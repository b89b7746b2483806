package forecast

import "slices"

// releases finds where the floor falls back by a good part of its range: the indices of the points after each fall.
// With one or two falls, a sawtooth can't be distinguished from a start that needed more than the run; sure is then
// false.
func releases(points []Point) (at []int, sure bool) {
	lo, hi := points[0].Floor, points[0].Floor
	for _, p := range points {
		lo, hi = min(lo, p.Floor), max(hi, p.Floor)
	}
	deep := 0.3 * (hi - lo)
	if deep <= 2*wobble(points) {
		return nil, false
	}
	top, bottom := points[0].Floor, points[0].Floor
	fallen, where := false, 0
	for i, p := range points {
		switch {
		case !fallen && p.Floor < top-deep:
			fallen, bottom, where = true, p.Floor, i
		case fallen && p.Floor < bottom:
			bottom, where = p.Floor, i
		case fallen && p.Floor > bottom+deep/2:
			at = append(at, where)
			fallen, top = false, p.Floor
		case !fallen:
			top = max(top, p.Floor)
		}
	}
	if fallen {
		at = append(at, where)
	}
	return at, len(at) >= 3
}

// wobble is how much neighbouring floors usually differ.
func wobble(points []Point) float64 {
	moves := make([]float64, 0, len(points)-1)
	for i := 1; i < len(points); i++ {
		d := points[i].Floor - points[i-1].Floor
		moves = append(moves, max(d, -d))
	}
	slices.Sort(moves)
	return moves[len(moves)/2]
}

// overCycles judges a series whose memory is released at times, by the level to which it returns.
func overCycles(f Forecast, points []Point, readings []Reading, at []int, sure bool, limit float64) Forecast {
	if fresh := points[at[len(at)-1]:]; outgrown(points, at) {
		return onTrend(f, fresh, since(readings, fresh[0].FloorAt), limit)
	}
	f.Shape, f.Reason = Released, "it grows and is given back"
	f.SecondsPerStep = pace(points)
	if !sure || len(at) < MinPoints/2 {
		return f
	}
	troughs := cycles(points, at)
	f.Amplitude = amplitude(troughs)
	l := fit(troughs)
	if len(troughs) < MinPoints || !l.grows(troughs, limit) {
		return f
	}
	f.Growth, f.GrowthLow, f.GrowthHigh = l.slope, l.slope-1.645*l.slopeErr, l.slope+1.645*l.slopeErr
	f.GrowthPerStep, f.Watched = f.Growth*f.SecondsPerStep, points[len(points)-1].Time-troughs[0].Time
	f.Shape, f.Reason = Growing, "what it comes back to grows"
	return f.until(l, troughs, limit)
}

// outgrown reports that the present rise has left the pattern: it has lasted one and a half times as long as any cycle
// before, or has exceeded every earlier peak by a quarter of its height.
func outgrown(points []Point, at []int) bool {
	start := at[len(at)-1]
	longest, begin := 0.0, points[0].Time
	for _, i := range at {
		longest, begin = max(longest, points[i].Time-begin), points[i].Time
	}
	highest := 0.0
	for _, p := range points[:start] {
		highest = max(highest, p.Floor)
	}
	end := points[len(points)-1]
	rise := end.Floor - points[start].Floor
	return end.Time-points[start].Time > 1.5*longest && rise > 0 ||
		end.Floor > highest+0.25*(highest-points[start].Floor)
}

// cycles makes one point of every cycle: where it begins, and its highest peak. The last cycle is still in progress.
func cycles(points []Point, at []int) []Point {
	out := make([]Point, 0, len(at))
	for k, i := range at {
		end := len(points)
		if k+1 < len(at) {
			end = at[k+1]
		}
		c := points[i]
		for _, p := range points[i:end] {
			if p.Peak > c.Peak {
				c.Peak, c.PeakAt = p.Peak, p.PeakAt
			}
		}
		out = append(out, c)
	}
	return out
}
