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

// A session keeps one snapshot of an allocator, the newest that was asked for: snapshot.PID.pickle. What asks for one
// works on it when the trainer is gone. One, because a long history takes hundreds of megabytes.
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

// KeepSnapshot moves a file, which must lie on the session's file system, into the session, in place of the one that it
// had.
func (s *Session) KeepSnapshot(pid int, file string) error {
	older, err := filepath.Glob(filepath.Join(s.Dir, snapshotPrefix+"*"+snapshotSuffix))
	if err != nil {
		return fmt.Errorf("keep snapshot: %w", err)
	}
	path := s.SnapshotPath(pid)
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

// SnapshotPath is where the one of a process is kept.
func (s *Session) SnapshotPath(pid int) string {
	return filepath.Join(s.Dir, snapshotPrefix+strconv.Itoa(pid)+snapshotSuffix)
}

// Snapshot finds the one that is kept: here, or in the runtime directory, where a trainer leaves it whose allocation
// has failed.
func (s *Session) Snapshot() (kept Snapshot, ok bool) {
	var files []string
	for _, dir := range []string{s.Dir, s.Runtime()} {
		found, err := filepath.Glob(filepath.Join(dir, snapshotPrefix+"*"+snapshotSuffix))
		if err != nil {
			continue // a folder whose name is a bad pattern: it has none that could be found
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
