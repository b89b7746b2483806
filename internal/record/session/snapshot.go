package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// A session keeps one snapshot of an allocator, the newest: snapshot.PID.pickle. So commands that need a snapshot also
// work when the trainer has ended. It keeps only one, because a long history takes hundreds of megabytes.
const (
	snapshotPrefix = "snapshot."
	snapshotSuffix = ".pickle"
)

// Snapshot is a snapshot that a session keeps.
type Snapshot struct {
	Path  string
	PID   int // of the process whose allocator it is
	Taken time.Time
}

// KeepSnapshot moves a file, which must lie on the session's file system, into the session, and replaces the previous
// one.
func (s *Session) KeepSnapshot(pid int, from *rootdir.Dir, file string) error {
	dir, err := rootdir.Open(s.Dir)
	if err != nil {
		return fmt.Errorf("keep snapshot: %w", err)
	}
	defer dir.Close()
	older, err := dir.List()
	if err != nil {
		return fmt.Errorf("keep snapshot: %w", err)
	}
	kept := filepath.Base(s.SnapshotPath(pid))
	if err := from.Give(file, dir, kept); err != nil {
		return fmt.Errorf("keep snapshot: %w", err)
	}
	var errs []error
	for _, o := range older {
		if o.Name != kept && strings.HasPrefix(o.Name, snapshotPrefix) && strings.HasSuffix(o.Name, snapshotSuffix) {
			errs = append(errs, dir.Remove(o.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("keep snapshot: remove the one before: %w", err)
	}
	return nil
}

// SnapshotPath is where the snapshot of a process is kept.
func (s *Session) SnapshotPath(pid int) string {
	return filepath.Join(s.Dir, snapshotPrefix+strconv.Itoa(pid)+snapshotSuffix)
}

// Snapshot finds the snapshot that is kept: here, or in the runtime directory, where a trainer leaves it after a failed
// allocation.
func (s *Session) Snapshot() (kept Snapshot, ok bool) {
	var files []string
	for _, dir := range []string{s.Dir, s.Runtime()} {
		found, err := filepath.Glob(filepath.Join(dir, snapshotPrefix+"*"+snapshotSuffix))
		if err != nil {
			continue // a directory whose name is no valid pattern has no snapshot that could be found
		}
		files = append(files, found...)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		pid, perr := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), snapshotPrefix),
			snapshotSuffix))
		if err != nil || perr != nil || !info.Mode().IsRegular() {
			continue
		}
		if !ok || info.ModTime().After(kept.Taken) {
			kept, ok = Snapshot{f, pid, info.ModTime()}, true
		}
	}
	return kept, ok
}
