package detect

import "strings"

// Masked is what a guard has done in a run.
type Masked struct {
	PID     int
	Helped  int      // actions that gave memory back
	Holders []string // of what it cleared
}

// manyHelped is how often a guard's actions have to help until what they fight counts as a leak: a cache that is given
// back once or twice, after a warm-up, is none.
const manyHelped = 3

// HeldDown takes it back that a process is healthy, or undecided, whose memory does not grow because a guard gives back
// what is kept. A leak that shows nevertheless stays as it is.
func (r *Report) HeldDown(masked []Masked) {
	changed := false
	for _, m := range masked {
		if m.Helped < manyHelped || len(m.Holders) == 0 {
			continue
		}
		best := -1
		for i, f := range r.Findings {
			if f.PID != m.PID || f.Device != "" {
				continue
			}
			if f.Verdict == Leak {
				best = -1
				break
			}
			if best < 0 || f.Memory == Heap {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		f := &r.Findings[best]
		f.because(HeldDown, m.Helped)
		f.Class, f.Holder = RetainedObjects, strings.Join(m.Holders, ", ")
		f.Evidence = append(f.Evidence, f.Reason)
		f.Advice = []string{"clear " + f.Holder +
			" where it is filled: without the guard the run would have run out of memory"}
		changed = true
	}
	if changed {
		arrange(r.Findings)
		r.Verdict, r.Class, r.Confidence, r.Needs, r.Missing = Healthy, "", 0, 0, ""
		r.sum()
	}
}
