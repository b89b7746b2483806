// Package keeper owns the two background processes of a session, a collector and a keeper. It starts them, with
// collector.log as their output, and it is the keeper, which starts another collector when one dies. It knows nothing
// of what a collector does. So both its users can stand above it without importing each other: a client that starts a
// collector (package ask), and a collector that starts a keeper.
package keeper

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/memgauge/memgauge/internal/record/session"
)

// A collector that dies is started again: at once if it had lived for a while (the kernel's OOM killer takes collectors
// before trainers), otherwise after a pause that doubles, so that a broken one takes no core.
const (
	settled    = 10 * time.Second
	firstPause = 500 * time.Millisecond
	maxPause   = 4 * time.Second // a session is unobserved for less than five seconds
	keepPoll   = time.Second     // how often to check for a collector that somebody else started
)

// Run makes sure that the session has a collector, until the session is over or ctx ends. If another process does so
// already, it returns at once. A collector that runs when ctx ends continues by itself. started is called at each
// start.
func Run(ctx context.Context, s *session.Session, started func(error)) error {
	lock, err := s.TryKeep()
	if errors.Is(err, session.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	pause := time.Duration(0)
	for s.Live() {
		switch free, err := collectorMissing(s); {
		case err != nil:
			return err // the session's directory has been removed
		case !free:
			if !Rest(ctx, keepPoll) {
				return nil
			}
			continue
		}
		begun := time.Now()
		cmd, err := SpawnCollector(s)
		started(err)
		if err == nil && !waitEnd(ctx, cmd) {
			return nil
		}
		if time.Since(begun) >= settled {
			pause = 0
			continue
		}
		if !Rest(ctx, pause) {
			return nil
		}
		pause = min(max(firstPause, 2*pause), maxPause)
	}
	return nil
}

// collectorMissing reports that nobody holds the session's lock.
func collectorMissing(s *session.Session) (bool, error) {
	lock, err := s.TryLock(true)
	if errors.Is(err, session.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lock.Release()
	return true, nil
}

// Observed reports that a process holds the session's lock: a collector, or a client that recovers the session.
func Observed(s *session.Session) bool {
	free, err := collectorMissing(s)
	return err == nil && !free
}

// waitEnd waits for the process until ctx ends. Then it leaves the process to init.
func waitEnd(ctx context.Context, cmd *exec.Cmd) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // why it ended is in its log
	}()
	select {
	case <-ctx.Done():
		return false
	case <-ended:
		return true
	}
}

// Rest waits for d, and reports whether it could wait so long before ctx ended.
func Rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
