package web

import (
	"testing"

	"github.com/memgauge/memgauge/test/fakesession"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// TestPostMortem: the page of a session whose memory ran out has what a report has; of others, nothing.
func TestPostMortem(t *testing.T) {
	const at, mine = int64(1e15), int32(7)
	b := &model.Batch{Events: []model.Event{{Time: at, PID: mine, Rank: -1, Name: "oom_kill", A: int64(mine),
		B: 400 << 20, Text: "cgroup /pod reached its limit (400 MiB); killed: trainer 7 with 390 MiB"}}}
	for i := range int64(3) {
		b.Samples.Window = append(b.Samples.Window, model.WindowSample{Time: at - 2e6 + i*1e6, Event: at,
			Scope: "process", PID: mine, Name: "python", Bytes: (200 + 95*i) << 20})
	}
	b.Samples.Tree = append(b.Samples.Tree, model.TreeProcess{PID: mine, Rank: -1, Role: "trainer"})
	answer, err := postMortem(t.Context(), &fakesession.Session{Rows: fakesession.Stored(t, b),
		Forecast: &monitor.Report{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := answer.(ranOut)
	if ran.What == nil || *ran.What.Limit != 400<<20 || len(ran.What.Grew) != 1 || ran.What.Grew[0].Grown != 190<<20 ||
		len(ran.Minute) != 1 || ran.Minute[0].Name != "trainer 7" {
		t.Errorf("%+v", ran)
	}
	answer, err = postMortem(t.Context(), &fakesession.Session{Rows: fakesession.Stored(t, &model.Batch{}),
		Forecast: &monitor.Report{}}, nil)
	if err != nil || answer.(ranOut).What != nil {
		t.Errorf("%+v, %v", answer, err)
	}
}
