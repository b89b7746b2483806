package detect

import (
	"fmt"
	"math"
	"time"

	"github.com/memgauge/memgauge/internal/stats"
	"github.com/memgauge/memgauge/internal/units"
)

// A leak matters by when it ends the run. Nothing runs for years: what would meet its limit after farOff has none. Growth of less than
// a page a step is what page tables, file pages that libraries touch for the first time and logs make in every run; it matters if it
// fills the memory within trickleFor.
const (
	farOff     = 30 * 24 * time.Hour
	trickle    = 4096 // bytes a step: a page
	trickleFor = 3 * 24 * time.Hour
)

// lately is the share of the growth's time that its pace is taken of.
const lately = 0.25

// steepest is how much faster than what is kept a process's private memory may grow for the gaps between (measured: 1 to 3 times).
const steepest = 4

// forecast says when each leak meets its limit, takes those back that never will, and gives advice on the others.
func forecast(judged []judgement, in Input) (all []Finding) {
	in.growth = growths(judged)
	for _, j := range judged {
		for i := range j.findings {
			f := &j.findings[i]
			if f.Verdict == Leak {
				f.until(j.process, in)
				f.dismiss()
			}
			if f.Verdict == Leak || f.Class == AllocatorRetention || f.Class == DeviceCache {
				f.Advice = advise(*f)
			}
		}
		all = append(all, j.findings...)
	}
	return all
}

// judgement is what was found of one process.
type judgement struct {
	process  Process
	findings []Finding
}

// growths adds up how fast leaks fill the host's memory ("") and each device, in bytes/s: all processes of a job run into the
// same limit.
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

// charging is how fast the process's private memory grows, in bytes/s: what is charged for a heap with gaps between what it keeps.
func (p Process) charging(from float64) float64 {
	f := p.Anon.clean().from(from).floors(blocks)
	if len(f.Steps) < minFloors {
		return 0
	}
	return stats.TheilSen(f.Steps, f.Bytes) / p.Pace
}

// until says when the memory meets its limit, as of the process's last reading: all leaks in that memory together fill it, at the late
// pace.
func (f *Finding) until(p Process, in Input) {
	if p.Pace <= 0 {
		return
	}
	f.PerSec, f.Over = f.Rate/p.Pace, p.Gone
	limit := in.binding(f, p)
	if limit.Bytes <= 0 || f.Rate <= 0 {
		return
	}
	f.Limit = limit.Name
	end := max(f.End, p.Last) // the memory may have been read some steps before
	if p.Killed && f.Device == "" {
		f.Met, f.AtStep = true, end
		return
	}
	growth := max(f.PerSec, in.growth[f.Device])
	used := limit.Used
	if f.Device == "" {
		used = in.charge(growth, (end-f.Start)*p.Pace*lately)
	}
	left := max(limit.Bytes-used, 0) / growth // s
	f.Seconds = max(left, 1)
	faster, slower := max(f.High/f.Rate, 1), min(max(f.Low/f.Rate, 0.1), 1)
	f.SecondsLow, f.SecondsHigh = f.Seconds/faster, f.Seconds/slower
	if p.Slowest > 0 && p.Fastest > 0 {
		f.SecondsLow, f.SecondsHigh = f.SecondsLow*p.Fastest/p.Pace, f.SecondsHigh*p.Slowest/p.Pace
	}
	f.AtStep = end + left/p.Pace
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
		if d.Name == f.Device && d.Total > 0 {
			return Limit{Name: "device " + units.Bytes(math.Round(d.Total)).String(), Bytes: d.Total, Used: max(f.Level, d.Used)}
		}
	}
	return Limit{}
}

// charge is what is charged to the host's limit at the end of the run: the highest of the last readings, each carried on to there.
// A run ends in the step whose peak meets the limit, and one reading hits the peak of its step seldom. Readings from before the last
// seconds within don't count: it grew at another pace then, or not at all.
func (in *Input) charge(growth, within float64) float64 {
	n := len(in.Charged.Steps)
	if n == 0 {
		return in.Host.Used
	}
	used := in.Charged.Bytes[n-1] + growth*in.Charged.Steps[n-1]
	for i, ago := range in.Charged.Steps {
		if ago <= within {
			used = max(used, in.Charged.Bytes[i]+growth*ago)
		}
	}
	return used
}

// dismiss takes a leak back that is too slow to matter.
func (f *Finding) dismiss() {
	left := math.Inf(1)
	if f.Limit != "" {
		left = f.Seconds
	}
	slow := f.Limit != "" && !f.Met && left > farOff.Seconds()
	page := !f.ByTime && f.Rate < trickle && left > trickleFor.Seconds() && (f.Limit != "" || f.Memory == Mapped)
	if !slow && !page {
		return
	}
	reason := "it grows too slowly to matter: " + f.PerStep()
	if f.Limit != "" {
		reason += fmt.Sprintf(", %s in %.0f days", f.Limit, left/(24*3600))
	}
	f.Verdict, f.Reason = Healthy, reason
	f.Class, f.Holder, f.Site, f.Held, f.Limit, f.Seconds, f.SecondsLow, f.SecondsHigh, f.AtStep = "", "", "", "", "", 0, 0, 0, 0
}
