package store

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/test/env"
)

// TestLongTextsAreNamed: where a question fails for want of memory, the table with the longest texts is named; other
// errors, and those of statements over other tables, are as they were.
func TestLongTextsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.duckdb")
	db := env.Must[*DB](t)(Open(t.Context(), Options{Path: path}))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	alter(t, path, "INSERT INTO store.events (ts, pid, name, text) "+
		"SELECT make_timestamp(0), 1, 'x', repeat('y', 1 << 20) || range FROM range(96)")
	db = env.Must[*DB](t)(Open(t.Context(), Options{Path: path, ReadOnly: true, MemoryLimit: 64 << 20, spill: 1 << 20}))
	defer db.Close()
	for sql, named := range map[string]bool{
		"SELECT list(text) FROM memgauge.events":   true,
		"SELECT list(range) FROM range(100000000)": false,
	} {
		_, err := tryAsk(t.Context(), db, sql)
		if !errors.Is(err, ErrMemory) {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		told := db.Blame(t.Context(), sql, err)
		if !errors.Is(told, ErrMemory) || strings.Contains(told.Error(), "the texts of memgauge.events") != named ||
			strings.Contains(remedy.Of(told), "length(COLUMN)") != named {
			t.Errorf("%s: %v, hint %q", sql, told, remedy.Of(told))
		}
	}
	if _, err := tryAsk(t.Context(), db, "FROM memgauge.eventz"); db.Blame(t.Context(), "memgauge.events", err) != err {
		t.Errorf("another error: %v", err)
	}
}
