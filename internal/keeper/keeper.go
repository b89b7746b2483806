// Package keeper owns the two processes that a session has in the background, a collector and a keeper: it starts them,
// with collector.log as their output, and is the keeper, which starts another collector where one dies. It knows
// nothing of what a collector does. So who wakes one (a client, package ask) and who wants company (a collector) both
// stand below this package, and neither imports the other.
package keeper

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/memgauge/memgauge/internal/session"
)

// A collector that dies is started again: at once when it had lived for a while (the kernel's OOM killer takes
// collectors before trainers), else after a pause that doubles, so that a broken one takes no core.
const (
	settled    = 10 * time.Second
	firstPause = 500 * time.Millisecond
	maxPause   = 4 * time.Second // a session is unobserved for less than five seconds
	keepPoll   = time.Second     // how often one is looked for that somebody else started
)

// Run sees to it that the session has a collector, until it is over or ctx ends; where another process does that
// already, it comes back at once. A collector that runs when ctx ends goes on by itself. started hears of each start.
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
			return err // the session's directory is gone
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

// collectorMissing says that nobody holds the session's lock.
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

// Observed says that a collector, or who recovers the session, has it.
func Observed(s *session.Session) bool {
	free, err := collectorMissing(s)
	return err == nil && !free
}

// waitEnd waits for the process, but no longer than for ctx. Then it is left to init.
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

// Rest waits for d, and says whether ctx let it.
func Rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
