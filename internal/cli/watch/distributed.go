package watch

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/forecast"
	"github.com/memgauge/memgauge/internal/remedy"
)

// distributedCommand is hidden until there is a fleet: the master watches its own node, as monitor does, and a worker
// says that it has nobody to send to. DistributedMemoryMonitor of the Python package does the same.
func (a *commands) distributedCommand() *cobra.Command {
	o := watchOptions{tool: "monitor", history: 10000, timed: true}
	var role, host string
	var port uint16
	c := &cobra.Command{
		Use:    "distributed",
		Short:  "Watch the memory of several machines (this version: of the master alone)",
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			if role != "master" && role != "worker" {
				return app.Usage(fmt.Errorf("distributed: --role %q: master or worker", role))
			}
			if err := o.take(c, args); err != nil {
				return err
			}
			if role == "worker" {
				return remedy.Add(fmt.Errorf("distributed: %w: a worker can't send to %s:%d yet", errNoFleet, host,
					port), "memgauge monitor watches this machine by itself")
			}
			fmt.Fprintf(a.Stderr, "memgauge: distributed: %v: only the master's own is watched\n", errNoFleet)
			o.timed, o.oom.Window = true, forecastWindow
			return found(a.watch(c.Context(), o))
		},
	}
	f := c.Flags()
	o.AddFlags(f, "300", "3")
	f.StringVar(&role, "role", "master", "`ROLE` of this machine: master or worker")
	f.StringVar(&host, "master-host", "localhost", "`HOST` of the master")
	f.Uint16Var(&port, "port", 29500, "TCP `PORT` of the master")
	o.oom.Threshold, o.oom.Critical = forecast.DefaultThreshold, forecast.DefaultCritical
	return c
}

var errNoFleet = errors.New("this version of memgauge watches one machine only")
