package forecast

// Reading is the memory at a moment, or, where Floor and Peak are known, over a step.
type Reading struct {
	Time, Step  float64 // s; steps done, 0 where not known
	Floor, Peak float64 // bytes; the same where only a moment's value is known
}

// MaxPoints is how finely a series is looked at: enough to find a change to 1 %, few enough to judge in a millisecond.
const MaxPoints = 120

// Points gathers readings into at most MaxPoints stretches of equally many readings, and at least a few readings each
// where they are moments, so that a floor is one and not the point of the sawtooth at which it happened to be read.
func Points(readings []Reading) []Point {
	n := len(readings)
	size := max(1, (n+MaxPoints-1)/MaxPoints)
	sampled := moments(readings)
	if sampled {
		size = max(size, min(4, n/MinPoints))
	}
	size = max(size, 1)
	out := make([]Point, 0, n/size+1)
	skip := n % size // the oldest ones: the newest count most
	for i := skip; i+size <= n; i += size {
		p := gather(readings[i : i+size])
		p.Sampled = sampled
		out = append(out, p)
	}
	return out
}

func moments(readings []Reading) bool {
	for _, r := range readings {
		if r.Peak > r.Floor {
			return false
		}
	}
	return true
}

func gather(readings []Reading) Point {
	last := readings[len(readings)-1]
	first := readings[0]
	p := Point{Time: last.Time, Step: last.Step, Floor: first.Floor, Peak: first.Peak, FloorAt: first.Time, PeakAt: first.Time}
	for _, r := range readings {
		if r.Floor < p.Floor {
			p.Floor, p.FloorAt = r.Floor, r.Time
		}
		if r.Peak > p.Peak {
			p.Peak, p.PeakAt = r.Peak, r.Time
		}
	}
	return p
}
