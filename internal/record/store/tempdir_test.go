package store

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// DuckDB is given no path below a directory that others can exchange: they would have it write through a link.
func TestTempDirOfOthers(t *testing.T) {
	open := t.TempDir()
	for _, dir := range []string{filepath.Dir(open), open} {
		mode := os.FileMode(0o755)
		if dir == open {
			mode = 0o777
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", open)
	own, err := newScratch(open)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(own.path) == open {
		t.Errorf("an engine's directory is %s", own.path)
	}
	own.remove()
	var made bytes.Buffer
	rows := &listing{dir: open, rows: bytes.NewReader([]byte("{\"n\": 1}\n"))}
	if err := ParquetOfLines(t.Context(), rows, []LineColumn{{"n", "BIGINT"}}, &made); err != nil || made.Len() == 0 {
		t.Errorf("%d bytes, %v", made.Len(), err)
	}
	if len(rows.seen) != 0 {
		t.Errorf("%s has %v", open, rows.seen)
	}
}

// listing notes what a directory has while rows are read.
type listing struct {
	dir  string
	rows io.Reader
	seen []os.DirEntry
}

func (w *listing) Read(b []byte) (int, error) {
	list, err := os.ReadDir(w.dir)
	if err != nil {
		return 0, err
	}
	w.seen = append(w.seen, list...)
	return w.rows.Read(b)
}
