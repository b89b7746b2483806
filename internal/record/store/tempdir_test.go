package store

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/memgauge/memgauge/internal/base/rootdir"
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

// TestScratchBesideSweeps: engines that begin at the same time sweep up what killed ones have left, and take no
// directory from each other, though one is made a moment before it can be locked.
func TestScratchBesideSweeps(t *testing.T) {
	dir := t.TempDir()
	over := make(chan struct{})
	var sweeps, engines sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					rootdir.Sweep(dir, engineDir, 0)
				}
			}
		})
	}
	for range 4 {
		engines.Go(func() {
			for range 100 {
				own, err := newScratch(dir)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(own.path); err != nil {
					t.Error(err)
				}
				own.remove()
			}
		})
	}
	engines.Wait()
	close(over)
	sweeps.Wait()
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
