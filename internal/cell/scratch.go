package cell

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// prefix is that of a cell's scratch directory. A lock shows that its parent lives.
const prefix = "memgauge-cell-"

// sweepAge is how old a directory without a lock must be before it is removed: between making and locking it are
// microseconds.
const sweepAge = time.Minute

type scratch struct {
	path string
	lock *os.File
}

// newScratch makes a directory for one cell, and removes those that killed parents have left.
func newScratch(parent string) (*scratch, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, err
	}
	sweep(parent)
	path, err := os.MkdirTemp(parent, prefix) // 0700
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	return &scratch{path, lock}, nil
}

func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
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
	left, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // the pattern is well formed but for odd parents
	for _, path := range left {
		if info, err := os.Lstat(path); err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		if f, err := lockDir(path); err == nil { // another user's can't be opened
			_ = os.RemoveAll(path)
			f.Close()
		}
	}
}

func (s *scratch) remove() {
	_ = os.RemoveAll(s.path) // what stays is swept up by the next
	s.lock.Close()
}
