package store

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// ExportTo writes the Parquet file of an answer to w.
func (db *DB) ExportTo(ctx context.Context, sql string, w io.Writer) error {
	name, err := db.exportTemp(ctx, sql)
	if err != nil {
		return err
	}
	defer func() { _ = db.scratch.dir.Remove(name) }()
	if err := sendFile(w, db.scratch.dir, name); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func sendFile(w io.Writer, dir *rootdir.Dir, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// exportTemp writes a file in the temporary directory, the only place where DuckDB may write one.
func (db *DB) exportTemp(ctx context.Context, sql string) (name string, err error) {
	r, err := db.begin(ctx, sql)
	if err != nil {
		return "", err
	}
	defer r.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn.enter()
	defer r.conn.leave()
	stmt, sql, err := r.prepareLocked(sql) // the user's own mistakes are told in terms of what he wrote
	if err != nil {
		return "", r.explain(err)
	}
	duck.DestroyPrepare(&stmt)
	name = fmt.Sprintf("export-%d.parquet", exports.Add(1))
	f, err := db.scratch.dir.Create(name) // 0600, whatever mode DuckDB would give it
	if err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	f.Close()
	path := filepath.Join(db.scratch.path, name)
	// query() takes the statement as a text: no comment or semicolon in it can end the COPY.
	stop := r.boundFile(path, db.o.exportBytes())
	err = r.conn.exec("COPY (FROM query(" + quote(sql) + ")) TO " + quote(path) + " (FORMAT parquet, COMPRESSION zstd)")
	stop()
	if err != nil {
		_ = db.scratch.dir.Remove(name)
		return "", fmt.Errorf("export: %w", r.explain(err))
	}
	return name, nil
}

// exports number the files of this process's exports.
var exports atomic.Int64

// leastExport is the size, in bytes, that an export may always have, even in a session with a small limit.
const leastExport = 1 << 30

func (o Options) exportBytes() int64 { return max(o.MaxDisk, leastExport) }

// exportLook is the interval at which the size of a growing export is checked. Even a fast disk writes less than
// leastExport in this time.
const exportLook = 100 * time.Millisecond

// boundFile cancels the query when the file becomes larger than most bytes. stop ends the checks and waits for them.
func (r *Rows) boundFile(path string, most int64) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(exportLook)
		defer look.Stop()
		for {
			select {
			case <-quit:
				return
			case <-look.C:
			}
			if st, err := os.Stat(path); err == nil && st.Size() > most {
				r.cancel(
					remedy.Add(&Error{Msg: fmt.Sprintf(
						"the file would have more than %d bytes, the session's bound of disk", most),
						Kind: ErrCalledOff},
						"export less at a time"))
			}
		}
	}()
	return func() { close(quit); <-done }
}
