package cell

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// prefix is that of a cell's scratch directory. A lock shows that its parent lives.
const prefix = "memgauge-cell-"

// sweepAge is how old a directory without a lock must be before it is removed: between making and locking it are
// microseconds.
const sweepAge = time.Minute

type scratch struct {
	path string
	dir  *rootdir.Dir
	lock *os.File
}

// newScratch makes a directory for one cell, and removes those that killed parents have left.
func newScratch(parent string) (*scratch, error) {
	dir, err := rootdir.Temp(parent, prefix)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(dir.Path())
	if err != nil {
		return nil, errors.Join(err, dir.Discard())
	}
	lock, err := dir.Lock()
	if err != nil {
		return nil, errors.Join(err, dir.Discard())
	}
	rootdir.Sweep(filepath.Dir(path), prefix, sweepAge)
	return &scratch{path, dir, lock}, nil
}

func (s *scratch) remove() {
	_ = s.dir.Discard() // what stays is swept up by the next
	_ = rootdir.Unlock(s.lock)
}
