package detect

import (
	"fmt"
	"math"
	"time"

	"github.com/memgauge/memgauge/internal/base/stats"
	"github.com/memgauge/memgauge/internal/base/units"
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

// steepest is how much faster than what is kept a process's private memory may grow for the gaps between (measured: 1
// to 3 times).
const steepest = 4

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
			j.findings[i].beside(j)
		}
		all = append(all, j.findings...)
	}
	return all
}

// holey is how many times as fast as what is kept a process must grow for that to be told.
const holey = 1.5

// beside tells of a leak in the heap what the process grows by, where that is more: gaps between what is kept, which
// malloc can't give back. It is what a screen of processes shows, and what the limit goes by.
func (f *Finding) beside(j judgement) {
	if f.Verdict != Leak || f.Memory != Heap || j.process.Pace <= 0 {
		return
	}
	kept := 0.0 // in all of its private memory
	for _, other := range j.findings {
		if other.Verdict == Leak && (other.Memory == Heap || other.Memory == Private) {
			kept += other.Rate
		}
	}
	all := j.process.charging(f.Start) * j.process.Pace
	if all < holey*kept {
		return
	}
	by := min(all, steepest*kept)
	text := fmt.Sprintf("it keeps %s a %s; the process grows by %s, because of holes between what is kept and other "+
		"growth", units.Bytes(math.Round(kept)), f.Unit(), units.Bytes(math.Round(all)))
	switch {
	case f.Limit == "":
	case by < all:
		text += fmt.Sprintf("; the limit goes by %s, since holes make less than %d times as much",
			units.Bytes(math.Round(by)), steepest)
	default:
		text += "; the limit goes by that"
	}
	f.Evidence = append(f.Evidence, text)
}

// judgement is what was found of one process.
type judgement struct {
	process  Process
	findings []Finding
}

// growths adds up how fast leaks fill the host's memory ("") and each device, in bytes/s: all processes of a job run
// into the same limit.
func growths(judged []judgement) map[string]float64 {
	sum, shared := map[string]float64{}, 0.0
	for _, j := range judged {
		private, from := 0.0, math.Inf(1)
		for _, f := range j.findings {
			if f.Verdict != Leak || j.process.Pace <= 0 {
				continue
			}
			rate := f.Rate / j.process.Pace
			switch f.Memory {
			case Shared: // the processes map the same pages
				shared = max(shared, rate)
			case Mapped:
			case Device, Outside:
				sum[f.Device] += rate
			default:
				private, from = private+rate, min(from, f.Start)
			}
		}
		if private > 0 {
			sum[""] += max(private, min(j.process.charging(from), steepest*private))
		}
	}
	sum[""] += shared
	return sum
}

// charging is how fast the process's private memory grows, in bytes/s: what is charged for a heap with gaps between
// what it keeps.
func (p Process) charging(from float64) float64 {
	f := p.Anon.clean().from(from).floors(blocks)
	if len(f.Steps) < minFloors {
		return 0
	}
	return stats.TheilSen(f.Steps, f.Bytes) / p.Pace
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
		own = forecast.AtRate(limit.readings(), limit.Bytes, f.rate(p, in))
	}
	if f.dismiss(p, own.Seconds); f.Verdict != Leak || f.Limit == "" {
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

// rate is how fast all leaks in the finding's memory fill it, with the interval of its own rate and of the pace.
func (f *Finding) rate(p Process, in Input) forecast.Rate {
	growth := max(f.PerSec, in.growth[f.Device])
	low, high := f.Low/f.Rate, f.High/f.Rate
	if p.Slowest > 0 && p.Fastest > 0 {
		low, high = low*p.Pace/p.Slowest, high*p.Pace/p.Fastest
	}
	return forecast.Rate{PerSecond: growth, Low: growth * low, High: growth * high,
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
