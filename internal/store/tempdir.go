package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// engineDir begins the name of an engine's own directory: private, empty at first, the only one in which DuckDB may
// write besides the database, and gone with it. Rings never lie in one.
const engineDir = ".engine-"

// scratch is such a directory; its flock tells that somebody uses it.
type scratch struct {
	path string
	f    *os.File
}

// newScratch makes one in parent, or where that can't be written (a session on a read-only file system) in the system's
// directory for temporary files. What killed engines left beside it is removed.
func newScratch(parent string) (*scratch, error) {
	sweep(parent)
	dir, err := os.MkdirTemp(parent, engineDir) // 0700
	if errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) {
		dir, err = os.MkdirTemp("", "memgauge"+engineDir)
	}
	if err != nil {
		return nil, fmt.Errorf("make the engine's directory: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("make the engine's directory: %w", err)
	}
	f, err := lockDir(dir, syscall.LOCK_SH)
	if err != nil {
		_ = os.Remove(dir)
		return nil, fmt.Errorf("lock the engine's directory: %w", err)
	}
	return &scratch{dir, f}, nil
}

func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes directories that nobody holds.
func sweep(parent string) {
	entries, _ := os.ReadDir(parent) // what can't be listed can't be swept
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if !strings.HasPrefix(e.Name(), engineDir) {
			continue
		}
		if f, err := lockDir(dir, syscall.LOCK_EX); err == nil {
			_ = os.RemoveAll(dir) // tried again by the next
			f.Close()
		}
	}
}

func (s *scratch) remove() {
	_ = os.RemoveAll(s.path) // what stays is swept up by the next
	s.f.Close()
}
