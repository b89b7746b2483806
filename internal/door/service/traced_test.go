package service

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

// untraced are the steps of a process from the first to the last.
func untraced(pid int32, last int64) (b model.Batch) {
	for step := range last {
		b.Steps = append(b.Steps, model.Step{Time: step + 1, PID: pid, Rank: -1, Step: step + 1, Steps: 1,
			DurationNS: model.Null})
	}
	return b
}

// TestFewStepsAreTold: an answer of a few steps says so, where more were asked for, and for how many there are rows.
func TestFewStepsAreTold(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "session.duckdb"), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	svc := &Service{Job: Job{S: s}, Open: Opened(db)}
	const lastHundred = `SELECT step, MAX(allocated) FROM python.torch_trace
		WHERE step > (SELECT MAX(step) - 100 FROM Python.Torch_Trace) GROUP BY step ORDER BY step`
	told := func(sql string) string {
		t.Helper()
		var notes []string
		q := api.QueryRequest{SQL: sql, Format: "csv", Note: func(n string) { notes = append(notes, n) }}
		if err := svc.Query(t.Context(), q, io.Discard); err != nil {
			t.Fatal(err)
		}
		return strings.Join(notes, "\n")
	}
	add := func(b model.Batch) {
		t.Helper()
		if err := db.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	add(untraced(7, 1200))
	const rows = "python.torch_trace has rows for "
	if got := told(lastHundred); !strings.HasPrefix(got, rows+"0 of 1,200 steps: no module") {
		t.Errorf("untraced: %q", got)
	}
	traced := model.Batch{Names: []model.Name{{ID: 1, Text: "Net"}}}
	for _, step := range []int64{2, 1100} {
		for seq := range int32(2) {
			traced.Trace = append(traced.Trace, model.Trace{Time: step, PID: 7, Rank: -1, Step: step, Seq: seq,
				Module: 1})
		}
	}
	add(traced)
	if got := told(lastHundred); !strings.HasPrefix(got, rows+"2 of 1,200 steps: ") ||
		strings.Contains(got, "\n") {
		t.Errorf("in samples: %q", got)
	}
	if got := told("SELECT max(step) FROM python.steps"); got != "" {
		t.Errorf("of another table: %q", got)
	}
	add(untraced(8, 2))
	if got := told(lastHundred); !strings.HasPrefix(got, rows+"2 of 1,202 steps of 2 processes: ") {
		t.Errorf("of two processes: %q", got)
	}
	all := model.Batch{}
	for pid, last := range map[int32]int64{7: 1200, 8: 2} {
		for step := int64(1); step <= last; step++ {
			if pid == 8 || step != 2 && step != 1100 {
				all.Trace = append(all.Trace, model.Trace{Time: step, PID: pid, Rank: -1, Step: step, Module: 1})
			}
		}
	}
	add(all)
	if got := told(lastHundred); got != "" {
		t.Errorf("of a run whose steps were all traced: %q", got)
	}
}
