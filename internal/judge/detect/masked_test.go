package detect

import (
	"strings"
	"testing"
)

// TestHeldDown: what a guard gives back again and again is a leak, with what held it; once, or without a holder, it is
// none, and what leaks nevertheless keeps its own finding.
func TestHeldDown(t *testing.T) {
	report := func(v Why) Report {
		r := Report{Verdict: v.Verdict(), Steps: 500}
		for _, m := range []Kind{Heap, Anon} {
			f := Finding{PID: 7, Memory: m}
			f.because(NoGrowth)
			r.Findings = append(r.Findings, f)
		}
		r.Findings[1].because(v)
		return r
	}
	often := Masked{PID: 7, Helped: 35, Holders: []string{"System.validation_step_outputs"}}
	r := report(NoGrowth)
	r.HeldDown([]Masked{often})
	if r.Verdict != Leak || r.Findings[0].Memory != Heap || !strings.Contains(r.Line(),
		"LEAKS, held down by the guard: ") || !strings.Contains(r.Line(), "held by System.validation_step_outputs") {
		t.Errorf("%s: %q", r.Verdict, r.Line())
	}
	for name, m := range map[string]Masked{"once": {PID: 7, Helped: 1, Holders: often.Holders},
		"no holder": {PID: 7, Helped: 35}, "another process": {PID: 8, Helped: 35, Holders: often.Holders}} {
		r := report(NoGrowth)
		if r.HeldDown([]Masked{m}); r.Verdict != Healthy {
			t.Errorf("%s: %q", name, r.Line())
		}
	}
	r = report(Steady)
	if r.HeldDown([]Masked{often}); r.Findings[1].Why != Steady || strings.Contains(r.Line(), "held down") {
		t.Errorf("%q", r.Line())
	}
}
