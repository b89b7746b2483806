package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
)

// engineDir is the prefix of an engine's own temporary directory. It is private, and the only place besides the
// database where DuckDB may write. It is removed with the engine. Rings never lie in one.
const engineDir = ".engine-"

// scratch is such a directory; its flock shows that it is in use.
type scratch struct {
	path string
	dir  *rootdir.Dir
	f    *os.File
}

// newScratch makes one in parent, or in the system's temporary directory if parent is not writable (a session on a
// read-only file system), or others can exchange what lies there: DuckDB uses it by its path. It removes directories
// that killed engines have left in parent.
func newScratch(parent string) (s *scratch, err error) {
	rootdir.Sweep(parent, engineDir, 0)
	for range sweptTries {
		if s, err = makeScratch(parent); !swept(err) {
			break
		}
	}
	return s, err
}

// sweptTries is how often a directory is made anew that another engine's sweep took between its making and its lock:
// each engine sweeps once, as it begins.
const sweptTries = 20

// swept says that a new directory was gone, or in the hands of a sweep, before it was locked.
func swept(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EWOULDBLOCK)
}

func makeScratch(parent string) (*scratch, error) {
	dir, err := rootdir.Temp(parent, engineDir)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, trust.ErrOthers) {
		dir, err = rootdir.Temp("", "memgauge"+engineDir)
	}
	if err != nil {
		return nil, fmt.Errorf("make the engine's directory: %w", err)
	}
	f, err := dir.Lock()
	path, absErr := filepath.Abs(dir.Path())
	if err = errors.Join(err, absErr); err == nil {
		_, err = os.Lstat(path) // a sweep that had the lock before may have removed it
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		_ = dir.Discard()
		return nil, fmt.Errorf("lock the engine's directory: %w", err)
	}
	return &scratch{path, dir, f}, nil
}

func (s *scratch) remove() {
	_ = s.dir.Discard() // what stays is swept up by the next
	_ = rootdir.Unlock(s.f)
}
