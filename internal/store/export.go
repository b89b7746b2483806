package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// Export writes the answer to a question into a Parquet file, which appears whole or not at all.
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
	r.conn.enter()
	err = r.conn.exec("COPY (FROM query(" + quote(sql) + ")) TO " + quote(path) + " (FORMAT parquet, COMPRESSION zstd)")
	r.conn.leave()
	if err != nil {
		os.Remove(path)
		return "", fmt.Errorf("export: %w", r.explain(err))
	}
	return path, nil
}

// copyFile is for a target on another file system; path appears with its last byte.
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
