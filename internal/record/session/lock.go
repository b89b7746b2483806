package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// Lock is the right to use the database file: exclusive for a writer (the collector, or a client that recovers a
// session), shared for clients that read a finished one. The kernel releases it when its holder dies.
type Lock struct {
	f    *os.File
	said bool
}

// ErrLocked means that another process has the lock.
var ErrLocked = errors.New("in use by another process")

// TryLock takes the lock, or returns ErrLocked.
func (s *Session) TryLock(exclusive bool) (*Lock, error) { return s.tryLock(lockFile, exclusive) }

// TryKeep takes the right to start collectors for the session. One process at a time has it.
func (s *Session) TryKeep() (*Lock, error) { return s.tryLock(keepFile, true) }

func (s *Session) tryLock(name string, exclusive bool) (*Lock, error) {
	f, err := rootdir.EditFile(s.path(name))
	// who can't write here can read
	if !exclusive && (errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES)) {
		f, err = rootdir.OpenFile(s.path(name))
		if errors.Is(err, syscall.ENOENT) {
			return &Lock{}, nil // nobody writes here
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock session: %w", err)
	}
	if err := rootdir.TryLock(f, exclusive); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock session %s: %w", s.Dir, ErrLocked)
		}
		return nil, fmt.Errorf("lock session %s: %w", s.Dir, err)
	}
	return &Lock{f: f}, nil
}

// lockPoll is how often a waiting client tries to take the lock: flock(2) has no wait with a deadline.
const lockPoll = 5 * time.Millisecond

// Lock waits for the lock until ctx ends. ErrLocked says that the time was over, ctx.Err() that the wait was cancelled.
func (s *Session) Lock(ctx context.Context, exclusive bool) (*Lock, error) {
	for {
		l, err := s.TryLock(exclusive)
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, fmt.Errorf("lock session %s: %w", s.Dir, ctx.Err())
			}
			return nil, err
		case <-time.After(lockPoll):
		}
	}
}

// Say tells those who wait for an exclusive lock what its holder does with it, in a few words. That is a courtesy: what
// can't be said is left out.
func (l *Lock) Say(doing string) {
	start, err := proc.New("/proc").StartTicks(os.Getpid())
	text, jerr := json.Marshal(Holder{Pid{os.Getpid(), start}, doing})
	if errors.Join(err, jerr, l.f.Truncate(0)) == nil {
		_, _ = l.f.WriteAt(text, 0)
	}
	l.said = true
}

// Release releases the lock.
func (l *Lock) Release() {
	if l.said {
		_ = l.f.Truncate(0)
	}
	if l.f != nil {
		_ = rootdir.Unlock(l.f)
	}
}

// Holder is who has a session's lock to write, and what it does with it.
type Holder struct {
	Process Pid    `json:"process"`
	Doing   string `json:"doing"`
}

// Holder returns who has the lock, as it has said; false if nobody has said so, or who did is gone.
func (s *Session) Holder() (h Holder, ok bool) {
	if s.Elsewhere() || readJSON(s.path(lockFile), &h) != nil {
		return h, false
	}
	return h, s.alive(h.Process)
}
