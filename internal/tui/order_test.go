package tui

import (
	"testing"

	"github.com/memgauge/memgauge/internal/detect"
)

// TestFindingsInTheOrderOfTheReport: what is stored comes back in any order, and is shown in the report's.
func TestFindingsInTheOrderOfTheReport(t *testing.T) {
	rate := func(mb float64) *float64 { return &mb }
	r := &recording{}
	r.takeFindings([]findingRow{
		{Judgement: 1, Verdict: "healthy", Memory: "host heap", PID: 4},
		{Judgement: 1, Verdict: "leak", Memory: "worker", PID: 9, Rate: rate(0.02)},
		{Judgement: 1, Verdict: "undecided", Memory: "worker", PID: 5, Rate: rate(7)},
		{Judgement: 1, Verdict: "leak", Memory: "host heap", PID: 7, Rate: rate(1.09)},
		{Judgement: 2, Verdict: "leak", Memory: "host heap", PID: 7, Rate: rate(1.1)},
	})
	var pids []int
	for _, f := range r.judged[0].findings {
		pids = append(pids, f.PID)
	}
	if len(r.judged) != 2 || len(pids) != 4 || pids[0] != 7 || pids[1] != 9 || pids[2] != 5 || pids[3] != 4 {
		t.Errorf("%d judgements, processes %v", len(r.judged), pids)
	}
	if detect.Compare(r.judged[0].findings[0].finding(), r.judged[0].findings[1].finding()) >= 0 {
		t.Error("the heap's leak is the faster one")
	}
}
