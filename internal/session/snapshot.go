package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A session keeps one snapshot of an allocator, the newest that was asked for: snapshot.PID.pickle. What asks for one works
// on it when the trainer is gone. One, because a long history takes hundreds of megabytes.
const (
	snapshotPrefix = "snapshot."
	snapshotSuffix = ".pickle"
)

// Snapshot is a kept one.
type Snapshot struct {
	Path  string
	PID   int // of the process whose allocator it is
	Taken time.Time
}

// KeepSnapshot moves a file, which must lie on the session's file system, into the session, in place of the one that it had.
func (s *Session) KeepSnapshot(pid int, file string) error {
	older, err := filepath.Glob(filepath.Join(s.Dir, snapshotPrefix+"*"+snapshotSuffix))
	if err != nil {
		return fmt.Errorf("keep snapshot: %w", err)
	}
	path := filepath.Join(s.Dir, snapshotPrefix+strconv.Itoa(pid)+snapshotSuffix)
	if err := os.Rename(file, path); err != nil {
		return fmt.Errorf("keep snapshot: %w", err)
	}
	var errs []error
	for _, o := range older {
		if o != path {
			errs = append(errs, os.Remove(o))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("keep snapshot: remove the one before: %w", err)
	}
	return nil
}

// Snapshot finds the one that is kept.
func (s *Session) Snapshot() (kept Snapshot, ok bool) {
	files, err := filepath.Glob(filepath.Join(s.Dir, snapshotPrefix+"*"+snapshotSuffix))
	if err != nil {
		return Snapshot{}, false // a folder whose name is a bad pattern: it has none that could be found
	}
	for _, f := range files {
		info, err := os.Stat(f)
		pid, perr := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), snapshotPrefix), snapshotSuffix))
		if err != nil || perr != nil || !info.Mode().IsRegular() {
			continue
		}
		if !ok || info.ModTime().After(kept.Taken) {
			kept, ok = Snapshot{f, pid, info.ModTime()}, true
		}
	}
	return kept, ok
}
