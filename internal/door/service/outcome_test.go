package service

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

// TestOutcomeIsOfARunThatIsOver: the line at a run's end and what is asked later say the same, though nobody has
// recorded the end yet.
func TestOutcomeIsOfARunThatIsOver(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "session.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := &model.Batch{}
	for i := range int64(20) {
		b.Steps = append(b.Steps, model.Step{Time: 1.7e15 + i*50_000, PID: 7, Rank: -1, World: -1,
			Step: i + 1, Steps: 1, Device: -1,
			HeapInUse: 1<<30 + i<<20, Anon: 1<<30 + i<<20})
	}
	if err := db.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	sum, err := (&Service{Job: Job{S: s}, Open: Opened(db)}).Outcome(t.Context())
	if err != nil || !strings.Contains(sum.Verdict, "the run ended about") {
		t.Errorf("%q, %v", sum.Verdict, err)
	}
}
