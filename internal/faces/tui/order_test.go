package tui

import (
	"testing"

	"github.com/memgauge/memgauge/internal/door/questions"
	rows "github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// TestFindingsInTheOrderOfTheReport: what is stored comes back in any order, and is shown in the report's.
func TestFindingsInTheOrderOfTheReport(t *testing.T) {
	row := func(judgement int64, f rows.Finding) questions.Finding {
		f.PerStep = f.Rate
		return questions.Finding{Finding: f, Number: judgement}
	}
	r := &recording{}
	r.takeFindings([]questions.Finding{
		row(1, rows.Finding{Verdict: "healthy", Memory: "host heap", PID: 4}),
		row(1, rows.Finding{Verdict: "leak", Memory: "worker", PID: 9, Rate: 0.02 * (1 << 20)}),
		row(1, rows.Finding{Verdict: "undecided", Memory: "worker", PID: 5, Rate: 7 * (1 << 20)}),
		row(1, rows.Finding{Verdict: "leak", Memory: "host heap", PID: 7, Rate: 1.09 * (1 << 20)}),
		row(2, rows.Finding{Verdict: "leak", Memory: "host heap", PID: 7, Rate: 1.1 * (1 << 20)}),
	})
	var pids []int32
	for _, f := range r.judged[0].findings {
		pids = append(pids, f.PID)
	}
	if len(r.judged) != 2 || len(pids) != 4 || pids[0] != 7 || pids[1] != 9 || pids[2] != 5 || pids[3] != 4 {
		t.Errorf("%d judgements, processes %v", len(r.judged), pids)
	}
	if detect.Compare(r.judged[0].findings[0], r.judged[0].findings[1]) >= 0 {
		t.Error("the heap's leak is the faster one")
	}
}
