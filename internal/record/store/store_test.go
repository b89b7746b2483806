package store

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

func open(t testing.TB, o Options) *DB {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "session.duckdb")
	}
	if o.Threads == 0 {
		o.Threads = 2
	}
	db, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func add(t testing.TB, db *DB, b *model.Batch) {
	t.Helper()
	if err := db.Append(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

// ask gives all rows of an answer.
func ask(t testing.TB, db *DB, sql string) [][]any {
	t.Helper()
	rows, err := tryAsk(context.Background(), db, sql)
	if err != nil {
		t.Fatalf("%s\n%v", sql, err)
	}
	return rows
}

func tryAsk(ctx context.Context, db *DB, sql string) (all [][]any, err error) {
	r, err := db.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for r.Next() {
		all = append(all, r.Values())
	}
	return all, r.Err()
}
