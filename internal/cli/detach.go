package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/proc"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/units"
)

type detachOptions struct {
	children bool
	timeout  string
}

func (a *app) detachCommand() *cobra.Command {
	var o detachOptions
	c := &cobra.Command{
		Use:   "detach PID",
		Short: "Take the agent out of a process, which goes on",
		Long: "Takes the agent's hooks off, closes its files and sockets, ends its thread and removes its modules. The process goes on as if\n" +
			"it had never been observed, and can be attached to again. The session stays: when nobody is left in it, it is finished.",
		Example: "  memgauge detach 27891\n" +
			"  memgauge detach --children 27890",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.detach(cmd.Context(), o, args[0]) },
	}
	c.Flags().BoolVar(&o.children, "children", false, "out of the processes that descend from PID too")
	c.Flags().StringVar(&o.timeout, "timeout", "10s", "wait for the agent at most for `DURATION`")
	return c
}

func (a *app) detach(ctx context.Context, o detachOptions, arg string) error {
	timeout, err := units.ParseDuration(o.timeout)
	if err != nil || timeout <= 0 {
		return usageError{fmt.Errorf("detach: --timeout %q: not a duration such as 10s", o.timeout)}
	}
	pid, err := pidArgument("detach", arg)
	if err != nil {
		return err
	}
	pids := []int{pid}
	if o.children {
		if pids, err = proc.New("/proc").Tree(pid); err != nil {
			return fmt.Errorf("detach: %w", err)
		}
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(timeout))
	defer cancel()
	done, errs := 0, []error(nil)
	for _, p := range pids {
		s, err := session.Observed(p)
		if err != nil {
			continue
		}
		if err := detachFrom(waiting, s, p); err != nil {
			errs = append(errs, fmt.Errorf("process %d: %w", p, err))
			continue
		}
		done++
		fmt.Fprintf(a.text(), "detached from %d\n", p)
		if err := a.finishDetached(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	if done == 0 && len(errs) == 0 {
		errs = append(errs, remedy.Add(fmt.Errorf("process %d is not observed", pid),
			"memgauge list shows the processes that are"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	return nil
}

func detachFrom(ctx context.Context, s *session.Session, pid int) error {
	processes := s.Processes()
	i := slices.IndexFunc(processes, func(p session.Process) bool { return p.PID == pid && p.Alive })
	if i < 0 {
		return errors.New("it has ended")
	}
	c, err := agent.Dial(ctx, processes[i].Socket)
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

// finishDetached ends a session in which nobody is left. One that `memgauge run` began ends with its command.
func (a *app) finishDetached(ctx context.Context, s *session.Session) error {
	if !s.Meta.Attached || s.Live() {
		return nil
	}
	if err := s.SetEnd(session.End{Ended: time.Now().UTC(), State: "detached"}); err != nil {
		return err
	}
	sum, err := finish(ctx, s)
	if err != nil {
		return fmt.Errorf("finish session %s: %w", s.Meta.Name, err)
	}
	name := endpointOf(s)
	_, err = fmt.Fprintf(a.text(),
		"session %s is finished, %s steps seen; ask it: memgauge %s query \"SHOW ALL TABLES\"\n", name,
		units.Count(sum.Steps), name)
	return err
}
