package store

import (
	"context"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// SetBacktrace replaces what python.backtrace shows.
func (db *DB) SetBacktrace(ctx context.Context, rows []model.Backtrace) error {
	db.writing.Lock()
	defer db.writing.Unlock()
	return db.about("store the backtrace in", db.withConn(ctx, func(c *conn) error {
		if err := db.w.load(c); err != nil { // it has transactions of its own
			return err
		}
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		err := db.w.replaceBacktrace(c, rows)
		if err == nil {
			err = c.exec("COMMIT")
		}
		if err != nil {
			_ = c.exec("ROLLBACK") // fails where DuckDB has rolled back already
		}
		return err
	}))
}

func (w *writer) replaceBacktrace(c *conn, rows []model.Backtrace) error {
	if err := c.exec("DELETE FROM store.backtrace"); err != nil {
		return err
	}
	rows = slices.Clone(rows)
	for i := range rows {
		r := &rows[i]
		for _, text := range []*string{&r.Name, &r.Func, &r.File, &r.Kind} {
			*text = strings.ReplaceAll(*text, "\x00", "\uFFFD") // the names of a program's threads may hold anything
		}
	}
	return w.fill(c, table.Backtrace, &rows)
}
