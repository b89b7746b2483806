package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/model"
)

// backtraceRows bounds one INSERT: some 40 KiB of SQL. A job of 10 processes with 20 threads each has 4,000 frames.
const backtraceRows = 256

// SetBacktrace replaces what python.backtrace shows.
func (db *DB) SetBacktrace(ctx context.Context, rows []model.Backtrace) error {
	db.writing.Lock()
	defer db.writing.Unlock()
	return db.about("store the backtrace in", db.withConn(ctx, func(c *conn) error {
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		err := replaceBacktrace(c, rows)
		if err == nil {
			err = c.exec("COMMIT")
		}
		if err != nil {
			_ = c.exec("ROLLBACK") // fails where DuckDB has rolled back already
		}
		return err
	}))
}

func replaceBacktrace(c *conn, rows []model.Backtrace) error {
	if err := c.exec("DELETE FROM store.backtrace"); err != nil {
		return err
	}
	for len(rows) > 0 {
		n := min(len(rows), backtraceRows)
		values := make([]string, n)
		for i, r := range rows[:n] {
			values[i] = backtraceValues(r)
		}
		if err := c.exec("INSERT INTO store.backtrace VALUES " + strings.Join(values, ", ")); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func backtraceValues(r model.Backtrace) string {
	return fmt.Sprintf("(make_timestamp(%d), %d, nullif(%d, -1), nullif(%d, 0), nullif(%s, ''), %d, %s, nullif(%s, ''), nullif(%d, 0), %s)",
		r.Time, r.PID, r.Rank, r.TID, literal(r.Name), r.Depth, literal(r.Func), literal(r.File), r.Line,
		literal(r.Kind))
}

// literal is a text in SQL. The names of a program's threads may hold anything; a NUL would end the statement.
func literal(s string) string { return quote(strings.ReplaceAll(s, "\x00", "\uFFFD")) }
