package detect

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// Steps is how far the process has come by its own series.
func (p Process) Steps() float64 {
	last := 0.0
	for _, s := range []Series{p.Heap, p.Anon} {
		if n := len(s.Steps); n > 0 && !math.IsNaN(s.Steps[n-1]) {
			last = max(last, s.Steps[n-1])
		}
	}
	return last
}

// Name is the memory in words: "host heap", "cuda:0", "worker 4711", "host heap of rank 3".
func (f Finding) Name() string {
	name := string(f.Memory)
	switch {
	case f.Device != "" && f.Memory == Device:
		name = f.Device
	case f.Device != "":
		name = f.Device + strings.TrimPrefix(name, "device")
	case f.Memory == Worker:
		name = fmt.Sprintf("worker %d", f.PID)
	}
	if f.Rank >= 0 {
		name += fmt.Sprintf(" of rank %d", f.Rank)
	}
	return name
}

// Unit is what rates are by.
func (f Finding) Unit() string { return unitOf(f.Work, f.ByTime) }

// PerStep is the rate with its unit, such as "+1.02 MiB/step" or, where there are no steps, "+1.2 MiB/s".
func (f Finding) PerStep() string {
	return Pace(model.Finding{Rate: model.MB(f.Rate), Unit: f.Unit()})
}

// per is the unit as it stands behind a slash.
func (f Finding) per() string { return per(f.Unit()) }

// missing says what an undecided verdict lacks. Of a run that is over nothing more will come: it says by how much the
// run was too short.
func missing(reason string, needs float64, unit string, over bool) string {
	if needs <= 0 {
		return reason
	}
	if over {
		return fmt.Sprintf("%s; the run ended about %s %ss too early to tell", reason, units.Count(int64(needs)), unit)
	}
	if n := int64(needs); n > 1 {
		return fmt.Sprintf("%s; needs about %s more %ss", reason, units.Count(n), unit)
	}
	return reason + "; needs one more " + unit
}

// Missing says what the finding lacks.
func (f Finding) Missing() string { return missing(f.Reason, f.Needs, f.Unit(), f.Over) }

// Line is the verdict in one line.
func (r Report) Line() string {
	switch {
	case r.Verdict == Leak:
		f := r.Findings[0]
		if f.Why == HeldDown {
			return fmt.Sprintf("LEAKS, held down by the guard: %s, held by %s (memgauge leak tells more)", f.Name(),
				f.Holder)
		}
		line := fmt.Sprintf("LEAK %s %s since %s %.0f", f.Name(), f.PerStep(), f.Unit(), f.Start)
		if f.Holder != "" {
			line += ", held by " + f.Holder
		} else if f.Site != "" {
			line += ", created at " + f.Created()
		}
		return line + " (memgauge leak tells more)"
	case r.Verdict == Undecided:
		return "undecided about leaks: " + missing(r.Missing, r.Needs, r.Lacks, r.Over)
	}
	span := units.Count(int64(r.Steps)) + " " + r.Unit() + "s"
	if r.ByTime() {
		span = units.Duration(time.Duration(r.Seconds * float64(time.Second)).Round(time.Second)).String()
	}
	return "healthy: no memory grows for good in " + span
}

// ByTime says that the run makes no steps, and is judged by time.
func (r Report) ByTime() bool { return r.Steps == 0 && r.Seconds > 0 }

// Unit is what the run's steps are.
func (r Report) Unit() string { return unitOf(r.Work, r.ByTime()) }

// Ignore takes leaks back that somebody doesn't count as such, with the reason.
func (r *Report) Ignore(which func(Finding) bool, reason string) {
	disagreed := disagreements(r.Findings)
	r.Warnings = slices.DeleteFunc(slices.Clone(r.Warnings), func(w string) bool {
		return slices.Contains(disagreed, w)
	})
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Verdict == Leak && which(*f) {
			f.because(NotCounted, reason)
		}
	}
	arrange(r.Findings)
	r.Warnings = append(r.Warnings, disagreements(r.Findings)...)
	r.Verdict, r.Class, r.Confidence, r.Needs, r.Missing = Healthy, "", 0, 0, ""
	r.sum()
}

// readToTheEnd is the share of a run by which a memory must have been read last for the end to have been seen.
const readToTheEnd = 0.95

// Sound says in a few words why a memory is healthy, and how much growth would not have been seen.
func (f Finding) Sound() string {
	text := f.Reason
	if f.Unseen > 0 && f.Why == NoGrowth {
		text += fmt.Sprintf(" (%s/%s would show)", units.Bytes(math.Round(f.Unseen)), f.per())
	}
	if f.Load != "" {
		text += ", at " + f.Load
	}
	if f.End < readToTheEnd*f.Last {
		text += fmt.Sprintf(", read until %s %.0f of %.0f", f.Unit(), f.End, f.Last)
	}
	return text
}
