package cell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/rootdir"
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
	lock, err := lockDir(dir)
	if err != nil {
		return nil, errors.Join(err, dir.Discard())
	}
	sweep(filepath.Dir(path))
	return &scratch{path, dir, lock}, nil
}

func lockDir(dir *rootdir.Dir) (*os.File, error) {
	f, err := dir.Handle()
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func sweep(parent string) {
	in, err := rootdir.Open(parent)
	if err != nil {
		return
	}
	defer in.Close()
	entries, _ := in.List() // what can't be listed can't be swept
	for _, e := range entries {
		if strings.HasPrefix(e.Name, prefix) && int(e.UID) == os.Geteuid() && time.Since(e.Modified) >= sweepAge {
			sweepOne(in, e.Name)
		}
	}
}

// sweepOne removes a directory whose lock nobody holds.
func sweepOne(in *rootdir.Dir, name string) {
	dir, err := in.Sub(name)
	if err != nil { // a link, or removed by another
		return
	}
	defer dir.Close()
	if f, err := lockDir(dir); err == nil {
		_ = in.RemoveAll(name)
		f.Close()
	}
}

func (s *scratch) remove() {
	_ = s.dir.Discard() // what stays is swept up by the next
	s.lock.Close()
}
