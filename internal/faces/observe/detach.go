package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
)

// DetachOptions are the user's options of a detach.
type DetachOptions struct {
	PID      int
	Children bool   // out of the processes that descend from PID too
	Timeout  string // for the answers of all agents together, such as "10s"

	// Left is called for each process as soon as the agent has left it.
	Left func(pid int)
	// Finished is called for each session in which no process is left, with the steps of the process that made most: -1
	// where that is not known yet. Detach returns its error.
	Finished func(s Ref, steps int64) error
}

// Detach removes the agent from a process, which continues. It finishes a session without remaining processes, which
// may take 10 s. If it fails for one process, it continues with the others.
func Detach(ctx context.Context, o DetachOptions) error {
	timeout, err := checkTimeout("detach", o.Timeout)
	if err != nil {
		return err
	}
	pids := []int{o.PID}
	if o.Children {
		if pids, err = proc.New("/proc").Tree(o.PID); err != nil {
			return fmt.Errorf("detach: %w", err)
		}
	}
	if err := o.leaveAll(ctx, pids, timeout); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	return nil
}

func (o DetachOptions) leaveAll(ctx context.Context, pids []int, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	observed, errs := false, []error(nil)
	for _, p := range pids {
		s, err := session.Observed(p)
		if err != nil {
			continue
		}
		observed = true
		if err := leave(waiting, s, p); err != nil {
			errs = append(errs, fmt.Errorf("process %d: %w", p, err))
			continue
		}
		o.Left(p)
		if err := o.finish(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	if !observed {
		return remedy.Add(fmt.Errorf("process %d is not observed", o.PID),
			"memgauge list shows the processes that are")
	}
	return errors.Join(errs...)
}

// leave has the agent remove itself from one process.
func leave(ctx context.Context, s *session.Session, pid int) error {
	c, err := dialIn(ctx, s, pid)
	if err == nil {
		defer c.Close()
		err = c.Detach(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = remedy.Add(errors.New("the GIL (Python's lock) could not be had in time"),
			"memgauge backtrace shows what the process does; --timeout 1m waits longer")
	}
	return err
}

// finish ends a session without remaining processes. The session of a run is left alone: it ends with its command.
func (o DetachOptions) finish(ctx context.Context, s *session.Session) error {
	if !s.Meta.Attached || s.Live() {
		return nil
	}
	if err := s.SetEnd(session.End{Ended: time.Now().UTC(), State: "detached"}); err != nil {
		return err
	}
	sum, pending, err := finish(ctx, s, finishTimeout)
	if err != nil {
		return fmt.Errorf("finish session %s: %w", s.Meta.Name, err)
	}
	if pending {
		sum.Steps = -1
	}
	return o.Finished(refTo(s), sum.Steps)
}
