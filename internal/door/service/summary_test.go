package service

import (
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

// What was given up for want of disk is told apart from what was lost otherwise.
func TestSummaryTellsWhatWasLeftOut(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "session.duckdb"), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := &model.Batch{}
	for reason, n := range map[string]int64{"thinned": 1, "merged": 20, "disk limit": 300,
		"database not writable": 4000, "overwritten": 50_000} {
		b.Drops = append(b.Drops, model.Drop{Time: 1, Source: "x", Reason: reason, Records: n})
	}
	if err := db.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	sum, err := (&Service{Open: Opened(db)}).Summary(t.Context())
	if err != nil || sum.LeftOut != 4321 || sum.Lost != 54_320 {
		t.Errorf("left out %d, lost %d, %v; want 4321 and 54320", sum.LeftOut, sum.Lost, err)
	}
}
