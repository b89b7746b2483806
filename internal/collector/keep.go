package collector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/session"
)

// A collector that dies is started again: at once when it had lived for a while (the kernel's OOM killer takes collectors
// before trainers), else after a pause that doubles, so that a broken one takes no core.
const (
	settled    = 10 * time.Second
	firstPause = 500 * time.Millisecond
	maxPause   = 4 * time.Second // a session is unobserved for less than five seconds
	keepPoll   = time.Second     // how often one is looked for that somebody else started
)

// Keep sees to it that the session has a collector, until it is over or ctx ends; where another process does that already,
// it comes back at once. A collector that runs when ctx ends goes on by itself. started hears of each start.
func Keep(ctx context.Context, s *session.Session, started func(error)) error {
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
			if !rest(ctx, keepPoll) {
				return nil
			}
			continue
		}
		begun := time.Now()
		cmd, err := Spawn(s)
		started(err)
		if err == nil && !waitEnd(ctx, cmd) {
			return nil
		}
		if time.Since(begun) >= settled {
			pause = 0
			continue
		}
		if !rest(ctx, pause) {
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

func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// SpawnKeeper starts a process of its own that does what Keep does, for a session that nobody stays with.
func SpawnKeeper(s *session.Session) error {
	cmd, err := spawn(s, "collector", "--keep", "--session", s.Dir)
	if err != nil {
		return err
	}
	return cmd.Process.Release()
}

// kept sees to it that somebody stays with the collector: who started it may have been a client, and who stayed with it may
// have been killed.
type kept struct{ failed bool }

// look says once why nobody can.
func (k *kept) look(s *session.Session) error {
	lock, err := s.TryKeep()
	if err == nil {
		lock.Release()
		err = SpawnKeeper(s)
	}
	if err == nil || k.failed || errors.Is(err, session.ErrLocked) {
		return nil
	}
	k.failed = true
	return err
}

// Spawn starts a collector for the session as a process of its own, which survives the terminal and its parent. When one
// is there already, the new one ends at once.
func Spawn(s *session.Session) (*exec.Cmd, error) {
	return spawn(s, "collector", "--session", s.Dir)
}

func spawn(s *session.Session, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start collector: %w", err)
	}
	defer session.PrivateFiles()()
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600) // no link, no pipe
	if err != nil {
		return nil, fmt.Errorf("start collector: %w", err)
	}
	defer log.Close()
	cutLog(log)
	cmd := exec.Command(exe, args...)
	cmd.Args[0] = "memgauge" // what ps shows, and what a test binary goes by
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "MALLOC_ARENA_MAX=2") // mallopt(3): one a thread would each keep what it held once
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start collector: %w", err)
	}
	return cmd, nil
}
