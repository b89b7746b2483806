package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// engineDir is the prefix of an engine's own temporary directory. It is private, and the only place besides the
// database where DuckDB may write. It is removed with the engine. Rings never lie in one.
const engineDir = ".engine-"

// scratch is such a directory; its flock shows that it is in use.
type scratch struct {
	path string
	f    *os.File
}

// newScratch makes one in parent, or in the system's temporary directory if parent is not writable (a session on a
// read-only file system). It removes directories that killed engines have left in parent.
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

// sweep removes directories whose lock nobody holds.
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
