package monitor

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// Level of OOM risk.
type Level int

const (
	Low Level = iota
	Medium
	High
	Critical
)

// String returns the level's name: low, medium, high or critical.
func (l Level) String() string { return [...]string{"low", "medium", "high", "critical"}[l] }

// MarshalJSON writes the level's name.
func (l Level) MarshalJSON() ([]byte, error) { return json.Marshal(l.String()) }

// UnmarshalJSON is the reverse.
func (l *Level) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	for level := Low; level <= Critical; level++ {
		if level.String() == name {
			*l = level
			return nil
		}
	}
	return fmt.Errorf("%q is not a level of risk", name)
}

// OOMOptions define what counts as a risk.
type OOMOptions struct {
	Threshold float64       // percent of the limit at which usage alone is a medium risk
	Critical  float64       // percent at which it is critical
	Window    time.Duration // growth must have lasted so long before it is extrapolated
}

// Risk of one device.
type Risk struct {
	Level Level
	Worst Level // the highest so far
	forecast.Forecast
	Usage  float64 // percent of the limit
	Advice []string
	warned Level
	at     time.Time
}

// Warning is a risk that a user should know.
type Warning struct {
	Time   time.Time
	Device Device
	Risk   Risk
}

// again is the interval at which a lasting risk is reported again.
const again = time.Minute

// assess evaluates the history. The warning is new if the level has risen, or if it has lasted for a minute.
func (t *Track) assess(o OOMOptions) (Warning, bool) {
	if o.Threshold <= 0 {
		return Warning{}, false
	}
	last := t.History.Last
	r := &t.Risk
	r.Usage = last.Percent()
	r.Forecast = t.outlook(o)
	r.Level = level(r, o)
	if t.of.Killed && t.Device.ID == Host { // whatever the last reading says: it was made before the last of the growth
		r.Level = Critical
	}
	r.Worst = max(r.Worst, r.Level)
	r.Advice = advice(t, last)
	quiet := last.Time.Sub(r.at) >= again
	if r.Level < Medium {
		if quiet {
			r.warned = Low
		}
		return Warning{}, false
	}
	if r.Level <= r.warned && !quiet {
		return Warning{}, false
	}
	r.warned, r.at = r.Level, last.Time
	return Warning{last.Time, t.Device, *r}, true
}

// level combines usage and forecast. Usage alone warns at the user's own thresholds; a forecast warns when the end is
// near, and at a higher level the nearer it is.
func level(r *Risk, o OOMOptions) Level {
	l := Low
	switch {
	case r.Usage >= o.Critical:
		l = Critical
	case r.Usage >= o.Threshold && r.Sure():
		l = High
	case r.Usage >= o.Threshold:
		l = Medium
	}
	switch {
	case r.Sure() && (r.Within10 >= 0.5 || r.Seconds <= 15):
		l = max(l, Critical)
	case r.Imminent():
		l = max(l, High)
	case r.Sure():
		l = max(l, Medium)
	}
	return l
}

// advice depends on the cause.
func advice(t *Track, last Reading) []string {
	r := &t.Risk
	if r.Level < Medium {
		return nil
	}
	gpu := last.Kind == "device"
	var out []string
	switch {
	case r.Shape == forecast.Growing && r.Predicted:
		out = append(out, whatGrows(t, last, units.Bytes(r.Growth*60)))
	case r.Shape == forecast.Saturating && r.Predicted:
		out = append(out, "a cache fills: bound it, or leave it more room")
	case r.Amplitude > 0.3*float64(last.Total):
		out = append(out,
			fmt.Sprintf("a step needs %s above its floor: a smaller batch, gradient accumulation or checkpointing "+
				"lowers it", units.Bytes(r.Amplitude)))
	}
	if gpu && last.Reserved-last.Used > last.Total/20 {
		out = append(out, fmt.Sprintf("the allocator caches %s: torch.cuda.empty_cache() gives it to other processes",
			units.Bytes(last.Reserved-last.Used)))
	}
	if r.Level >= High && !t.of.Over {
		out = append(out, "save a checkpoint now")
	}
	switch {
	case gpu:
		out = append(out, "consider a smaller batch size")
	case last.Kind == "cgroup":
		out = append(out, "fewer data-loader workers, or a higher memory limit of the container")
	default:
		out = append(out, "fewer data-loader workers, or end other programs on this host")
	}
	return out
}

// whatGrows says whose growth it is. A host's memory is that of all its programs: the job itself may keep nothing.
func whatGrows(t *Track, last Reading, rate units.Bytes) string {
	switch {
	case last.Kind == "host" && t.of.Known:
		return fmt.Sprintf("the programs of this host grow by %s a minute together: `memgauge leak` tells whether "+
			"this job does", rate)
	case !t.of.Known:
		return fmt.Sprintf("the floor grows by %s a minute: `memgauge top` shows the processes, and `memgauge attach "+
			"PID` has one observed", rate)
	}
	return fmt.Sprintf("the floor grows by %s a minute: something is kept from step to step; `memgauge leak` names it",
		rate)
}

// Text is the warning in the form that the replaced tools print.
func (w *Warning) Text() string {
	r := &w.Risk
	out := fmt.Sprintf("[WARNING] OOM warning: %s\n   risk level: %s\n   current usage: %.1f%%\n", w.Device.Label(),
		r.Level, r.Usage)
	if r.Predicted {
		out += fmt.Sprintf("   predicted OOM: in %s (%s to %s)\n", Span(r.Seconds), bare(r.SecondsLow),
			bare(r.SecondsHigh))
	} else {
		out += "   predicted OOM: " + r.unforeseen() + "\n"
	}
	out += fmt.Sprintf("   confidence: %.2f\n", r.confidence())
	for _, a := range r.Advice {
		out += "   advice: " + a + "\n"
	}
	return out
}

// nearly is the usage, in percent, above which no message says that no end is in sight.
const nearly = 90

// unforeseen says that no time can be predicted, and why.
func (r *Risk) unforeseen() string {
	if r.Usage > nearly {
		return "may come at any time (" + r.Reason + ")"
	}
	return "none in sight (" + r.Reason + ")"
}

// Span formats seconds with one decimal, or minutes or hours where they are many.
func Span(s float64) string {
	switch {
	case math.IsInf(s, 1):
		return "unknown"
	case s < 120:
		return fmt.Sprintf("%.1f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	}
	return fmt.Sprintf("%.1f h", s/3600)
}

func bare(s float64) string {
	if s < 120 {
		return fmt.Sprintf("%.1f", s)
	}
	return Span(s)
}
