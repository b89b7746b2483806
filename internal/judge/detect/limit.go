package detect

import (
	"fmt"
	"math"
	"time"

	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// A leak matters by when it ends the run. Nothing runs for years: what would meet its limit after farOff has none.
// Growth of less than a page a step is what page tables, file pages that libraries touch for the first time and logs
// make in every run; it matters if it fills the memory within trickleFor.
const (
	farOff     = 30 * 24 * time.Hour
	trickle    = 4096 // bytes a step: a page
	trickleFor = 3 * 24 * time.Hour
	// trickleHeld is the same where the program's own container was seen to grow so: more than a log of some numbers a
	// step, which is meant to be kept.
	trickleHeld = 512
)

// foretell says when each leak meets its limit, takes those back that never will, and gives advice on the others.
func foretell(judged []judgement, in Input) (all []Finding) {
	in.growth = growths(judged)
	for _, j := range judged {
		for i := range j.findings {
			f := &j.findings[i]
			if f.Verdict == Leak {
				f.until(j.process, in)
			}
			if f.Verdict == Leak || f.Class == AllocatorRetention || f.Class == DeviceCache {
				f.Advice = advise(*f)
			}
		}
		for i := range j.findings {
			j.findings[i].beside(j.growth)
		}
		all = append(all, j.findings...)
	}
	return all
}

// judgement is what was found of one process.
type judgement struct {
	process  Process
	findings []Finding
	growth   growth // of its private memory, once that is asked for
}

// until says when the memory meets its limit, as of the process's last reading, and takes a leak back that is too slow
// to matter. All leaks in that memory together fill it, at the late pace. What is seen of the memory as a whole says
// more, once it can be told from chance: its peaks, and what else grows. It is what every tool goes by that forecasts.
func (f *Finding) until(p Process, in Input) {
	limit := Limit{}
	if p.Pace > 0 && f.Rate > 0 {
		f.PerSec = f.Rate / p.Pace
		limit = in.binding(f, p)
	}
	var own forecast.Forecast
	end := max(f.End, p.Last) // the memory may have been read some steps before
	if limit.Bytes > 0 {
		if f.Limit = limit.Name; p.spent(f.Device) {
			f.Met, f.AtStep = true, end
			return
		}
		own = forecast.AtRate(limit.readings(), limit.Bytes, f.pace(p, in))
	}
	if f.dismiss(p, own.Seconds*in.others(f)); f.Verdict != Leak || f.Limit == "" {
		return
	}
	job := in.Job
	job.Pressed = 100*limit.Used >= forecast.DefaultThreshold*limit.Bytes
	if seen := forecast.Outlook(limit.Readings, limit.Bytes, job); seen.Predicted {
		own = seen
	}
	f.take(own, limit.Lag, end, p.Pace)
}

// spent says that the process ended because the host's memory ("") or a device's was full.
func (p Process) spent(device string) bool {
	if device == "" {
		return p.Killed
	}
	return p.Spent == device
}

// take makes a forecast the finding's. Of a run that is over the time counts from its end.
func (f *Finding) take(c forecast.Forecast, lag, end, pace float64) {
	f.AtStep = end + max(0, c.Seconds-lag)/pace
	if !f.Over {
		lag = 0
	}
	f.Seconds, f.SecondsLow = max(c.Seconds-lag, 1), max(c.SecondsLow-lag, 0)
	if !math.IsInf(c.SecondsHigh, 1) {
		f.SecondsHigh = max(c.SecondsHigh-lag, f.Seconds)
	}
}

// fills is how fast the finding's memory fills by all leaks in it.
func (in *Input) fills(f *Finding) fillRate {
	if all, ok := in.growth[f.Device]; ok && all.is >= f.PerSec {
		return all
	}
	return fillRate{rate{f.Rate, f.Low, f.High}.by(f.PerSec / f.Rate), f.PerSec}
}

// others is how many times as fast the finding's memory fills as counts for a leak that is slow by itself.
func (in *Input) others(f *Finding) float64 {
	all := in.fills(f)
	if all.own <= 0 {
		return 1
	}
	return all.is / all.own
}

// pace is how fast the finding's memory fills, with the interval of that and of the time that steps take.
func (f *Finding) pace(p Process, in Input) forecast.Rate {
	all := in.fills(f)
	if p.Slowest > 0 && p.Fastest > 0 {
		all.low, all.high = all.low*p.Pace/p.Slowest, all.high*p.Pace/p.Fastest
	}
	return forecast.Rate{PerSecond: all.is, Low: all.low, High: all.high,
		Watched: (max(f.End, p.Last) - f.Start) * p.Pace}
}

// readings of the limit; one, where nothing but the end is known.
func (l *Limit) readings() []forecast.Reading {
	if len(l.Readings) > 0 {
		return l.Readings
	}
	return []forecast.Reading{{Floor: l.Used, Peak: l.Used}}
}

// binding is the limit that the memory runs into first; none for mapped files, which the kernel takes back.
func (in *Input) binding(f *Finding, p Process) Limit {
	switch {
	case f.Memory == Mapped:
		return Limit{}
	case f.Device == "":
		return in.Host
	}
	for _, d := range p.Devices {
		if d.Name == f.Device {
			return d.Limit
		}
	}
	return Limit{}
}

// dismiss takes a leak back that is too slow to matter: left is when it would meet its limit by itself, in seconds.
func (f *Finding) dismiss(p Process, left float64) {
	if f.Limit == "" {
		left = math.Inf(1)
	}
	if p.serves() && p.Fastest > 0 { // by night it is slower
		left *= p.Fastest / p.Pace
	}
	slow := f.Limit != "" && left > farOff.Seconds()
	small := float64(trickle)
	if f.Holder != "" {
		small = trickleHeld
	}
	page := !f.ByTime && !p.serves() && f.Rate < small && left > trickleFor.Seconds() &&
		(f.Limit != "" || f.Memory == Mapped)
	if !slow && !page {
		return
	}
	pace := f.PerStep()
	if f.Limit != "" {
		pace += fmt.Sprintf(", %s in %.0f days", f.Limit, left/(24*3600))
	}
	f.because(TooSlow, pace)
	f.Class, f.Holder, f.Site, f.Held, f.Limit = "", "", "", "", ""
}
