package forecast

// Rate is growth that is known from elsewhere: from a process that was observed from inside, step by step.
type Rate struct {
	PerSecond, Low, High float64 // bytes/s, with its interval
	Watched              float64 // s: how long it has lasted
}

const (
	// carried is how long before the end readings count, in s: among ten readings some hit the peaks of steps. lately
	// is the largest share of the growth's time that counts: before that, memory grew at another pace, or not at all.
	carried = 10
	lately  = 0.25
	// slowest is the least share of a rate that its lower end may be: growth that may come to nothing has no upper end
	// in time.
	slowest = 0.1
)

// AtRate forecasts for known growth, however far away its end is. It starts from the highest of the last readings, each
// extrapolated to the time of the last one. A run ends in the step whose peak meets the limit, and a single reading
// rarely hits the peak of its step.
func AtRate(readings []Reading, limit float64, g Rate) Forecast {
	f := Forecast{Shape: Growing, Reason: "at the pace of the leak", Growth: g.PerSecond, GrowthLow: g.Low,
		GrowthHigh: g.High, Watched: g.Watched}
	if len(readings) == 0 || g.PerSecond <= 0 || limit <= 0 {
		return Forecast{Shape: Unclear, Reason: "nothing is known of the limit"}
	}
	end := readings[len(readings)-1].Time
	used := readings[len(readings)-1].Peak
	for _, r := range since(readings, end-min(carried, lately*g.Watched)) {
		used = max(used, r.Peak+g.PerSecond*(end-r.Time))
	}
	left := max(0, limit-used)
	f.Predicted, f.Seconds = true, left/g.PerSecond
	f.SecondsLow, f.SecondsHigh = left/max(g.High, g.PerSecond), left/min(max(g.Low, slowest*g.PerSecond), g.PerSecond)
	return f
}

// Thin merges neighbours until there are at most so many readings: a power of two of them, counted from the first.
func Thin(readings []Reading, most int) []Reading {
	size := 1
	for (len(readings)+size-1)/size > most {
		size *= 2
	}
	if size == 1 {
		return readings
	}
	out := make([]Reading, 0, most)
	for from := 0; from < len(readings); from += size {
		part := readings[from:min(from+size, len(readings))]
		merged := part[len(part)-1]
		for _, r := range part {
			merged.Floor, merged.Peak = min(merged.Floor, r.Floor), max(merged.Peak, r.Peak)
		}
		out = append(out, merged)
	}
	return out
}
