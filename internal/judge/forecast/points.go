package forecast

import "slices"

// Reading is the memory at a moment, or, where Floor and Peak are known, over a step.
type Reading struct {
	Time, Step  float64 // s; steps done, 0 if unknown
	Floor, Peak float64 // bytes; equal if only a moment's value is known
	Mapped      float64 // bytes of files that the job has mapped and touched; 0 if unknown
}

const (
	// MaxPoints is the finest division of a series: enough to find a change to 1 %, few enough to judge in a
	// millisecond.
	MaxPoints = 120
	// fewPoints is the coarsest division, with more readings in each stretch: twice what a trend needs.
	fewPoints = 2 * MinPoints
	// enough readings at random moments of a step to find its floor: the least of four is usually in the lowest fifth.
	enough = 4
)

// Points gathers readings into at most MaxPoints stretches of equal time. How often memory is read changes while a job
// runs (densely at first, rarely later, not at all for a while), and must not change the result. So a stretch without
// readings makes no point. And if readings are moments, the floor of every stretch is found from equally many of them,
// since the least of forty is lower than the least of four.
func Points(readings []Reading) []Point {
	count := MaxPoints
	if moments(readings) {
		for count > fewPoints && typicalCount(divide(readings, count)) < enough {
			count = max(fewPoints, count*4/5)
		}
	}
	return inStretches(readings, count)
}

// inStretches makes at most so many points.
func inStretches(readings []Reading, count int) []Point {
	ends := divide(readings, count)
	sampled, take := moments(readings), len(readings)
	if sampled {
		take = typicalCount(ends)
	}
	out := make([]Point, 0, len(ends))
	from := 0
	for _, to := range ends {
		p := gather(readings[from:to], take)
		p.Sampled = sampled
		out = append(out, p)
		from = to
	}
	return out
}

// divide divides the time into so many stretches, and returns the index behind the last reading of each that has any.
func divide(readings []Reading, count int) []int {
	if len(readings) == 0 {
		return nil
	}
	first, last := readings[0].Time, readings[len(readings)-1].Time
	width := max((last-first)/float64(count), 1e-6) // a clock may stand still
	ends := make([]int, 0, count)
	at := 0
	for i, r := range readings {
		if stretch := min(count-1, int((r.Time-first)/width)); stretch != at {
			if i > 0 {
				ends = append(ends, i)
			}
			at = stretch
		}
	}
	return append(ends, len(readings))
}

// typicalCount is the number of readings that at least four fifths of the stretches have.
func typicalCount(ends []int) int {
	if len(ends) == 0 {
		return 0
	}
	counts := make([]int, len(ends))
	from := 0
	for i, to := range ends {
		counts[i], from = to-from, to
	}
	slices.Sort(counts)
	return counts[len(counts)/5]
}

func moments(readings []Reading) bool {
	for _, r := range readings {
		if r.Peak > r.Floor {
			return false
		}
	}
	return true
}

// gather makes one point of readings. Its floor is the least of so many of them, evenly spread; its peak the highest of
// all.
func gather(readings []Reading, take int) Point {
	n := len(readings)
	take = min(n, take)
	last := readings[n-1]
	p := Point{Time: last.Time, Step: last.Step, Floor: last.Floor, Peak: last.Peak, FloorAt: last.Time,
		PeakAt: last.Time}
	for k := 1; k < take; k++ { // the last reading is one of them
		if r := readings[n-1-k*n/take]; r.Floor < p.Floor {
			p.Floor, p.FloorAt = r.Floor, r.Time
		}
	}
	for _, r := range readings {
		if r.Peak > p.Peak {
			p.Peak, p.PeakAt = r.Peak, r.Time
		}
	}
	return p
}
