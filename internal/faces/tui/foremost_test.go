package tui

import (
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	rows "github.com/memgauge/memgauge/internal/formats/model"
)

// The process that is drawn first is the one that leaks, from the judgement on that says so; before it, and in a
// healthy job, the one with the most steps.
func TestTheLeakingProcessIsForemost(t *testing.T) {
	r := newRecording(api.About{})
	b := batch{}
	for pid := int64(10); pid < 14; pid++ { // ranks 0 to 3, the first a step ahead
		for at := int64(1); at <= 9; at++ {
			b.rows = append(b.rows, questions.Row{K: "s", ID: pid, T: at, A: at*10 + 10 - pid, B: 5, C: 5})
		}
	}
	r.take(b)
	if p := r.foremost(9); p == nil || p.pid != 10 {
		t.Errorf("without a judgement: %+v", p)
	}
	r.judged = []judgement{
		{at: 3, number: 1, findings: []rows.Finding{{Verdict: "healthy", PID: 13}}},
		{at: 5, number: 2, findings: []rows.Finding{{Verdict: "leak", PID: 99}, {Verdict: "leak", PID: 12}}},
	}
	for at, want := range map[int64]int{2: 10, 4: 10, 5: 12, 9: 12} {
		if p := r.foremost(at); p == nil || p.pid != want {
			t.Errorf("at %d: %+v, not process %d", at, p, want)
		}
	}
}
