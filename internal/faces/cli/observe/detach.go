package observe

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/observe"
)

func (a *commands) detachCommand() *cobra.Command {
	o := observe.DetachOptions{Left: a.sayLeft, Finished: a.sayFinished}
	c := &cobra.Command{
		Use:   "detach PID",
		Short: "Take the agent out of a process, which goes on",
		Long: "Takes the agent's hooks off, closes its files and sockets, ends its thread and removes its modules. The process goes on as if\n" +
			"it had never been observed, and can be attached to again. The session stays: when nobody is left in it, it is finished.",
		Example: "  memgauge detach 27891\n" +
			"  memgauge detach --children 27890",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.PID, err = pidArgument("detach", args[0]); err != nil {
				return err
			}
			return optionMistake(observe.Detach(cmd.Context(), o))
		},
	}
	c.Flags().BoolVar(&o.Children, "children", false, "out of the processes that descend from PID too")
	c.Flags().StringVar(&o.Timeout, "timeout", "10s", "wait for the agent at most for `DURATION`")
	return c
}

func (a *commands) sayLeft(pid int) { fmt.Fprintf(a.Text(), "detached from %d\n", pid) }

func (a *commands) sayFinished(s observe.Ref, steps int64) error {
	seen := fmt.Sprintf(", %s steps seen", units.Count(steps))
	if steps < 0 {
		seen = "; what was recorded is still being stored"
	}
	_, err := fmt.Fprintf(a.Text(), "session %s is finished%s; ask it: memgauge %s query \"SHOW ALL TABLES\"\n",
		s.Endpoint, seen, s.Endpoint)
	return err
}
