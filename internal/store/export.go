package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/remedy"
)

// Export writes the answer to a query into a Parquet file, which appears whole or not at all.
func (db *DB) Export(ctx context.Context, sql, path string) error {
	made, err := db.exportTemp(ctx, sql)
	if err != nil {
		return err
	}
	defer os.Remove(made)
	err = os.Rename(made, path)
	if errors.Is(err, syscall.EXDEV) {
		err = copyFile(made, path)
	}
	if err != nil {
		return fmt.Errorf("export to %s: %w", path, err)
	}
	return nil
}

// ExportTo writes the Parquet file of an answer to w.
func (db *DB) ExportTo(ctx context.Context, sql string, w io.Writer) error {
	made, err := db.exportTemp(ctx, sql)
	if err != nil {
		return err
	}
	defer os.Remove(made)
	if err := sendFile(w, made); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func sendFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// exportTemp writes a file in the temporary directory, the only place where DuckDB may write one.
func (db *DB) exportTemp(ctx context.Context, sql string) (path string, err error) {
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
	f, err := os.CreateTemp(db.o.TempDir, "export-*.parquet") // 0600
	if err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	path = f.Name()
	f.Close()
	// query() takes the statement as a text: no comment or semicolon in it can end the COPY.
	stop := r.boundFile(path, db.o.exportBytes())
	err = r.conn.exec("COPY (FROM query(" + quote(sql) + ")) TO " + quote(path) + " (FORMAT parquet, COMPRESSION zstd)")
	stop()
	if err != nil {
		os.Remove(path)
		return "", fmt.Errorf("export: %w", r.explain(err))
	}
	return path, nil
}

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

// copyFile copies to another file system. The file at path appears only when it is complete.
func copyFile(from, path string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		os.Remove(out.Name())
	}
	return err
}
