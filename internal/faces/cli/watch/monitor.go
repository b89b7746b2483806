package watch

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// blocksEvery is the interval at which monitor --all reads blocks. Fragmentation changes slowly, and each reading stops
// an allocator.
const blocksEvery = 30 * time.Second

func (a *commands) monitorCommand() *cobra.Command {
	o := watchOptions{tool: "monitor", history: 10000}
	all := false
	c := &cobra.Command{
		Use:   "monitor",
		Short: "Watch memory and OOM risk until Ctrl-C, with --all fragmentation and leaks",
		Long: "Watches the host and the GPUs, shows their use in a status line on a terminal and warns of OOM risk as oom does; with --all it looks at\n" +
			"fragmentation and leaks too, where processes are observed. With an ENDPOINT it watches that session, without one the whole machine.\n" +
			"Exit code 3 means that the risk was high or critical, or that a leak was found.",
		Example: "  memgauge monitor --all\n" +
			"  memgauge monitor --all --duration 300 --output monitor.json\n" +
			"  memgauge 27891 monitor",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.take(c, args); err != nil {
				return err
			}
			o.timed = true
			if all {
				o.blocks, o.leak = blocksEvery, true
			}
			o.oom.Window = forecastWindow
			return found(a.watch(c.Context(), o))
		},
	}
	f := c.Flags()
	o.AddFlags(f, "0", "1")
	o.addPlot(f)
	f.BoolVar(&all, "all", false, "fragmentation and leaks too")
	f.Float64Var(&o.oom.Threshold, "threshold", forecast.DefaultThreshold,
		"usage in `PERCENT` of the limit that alone is worth a warning")
	f.Float64Var(&o.oom.Critical, "critical", forecast.DefaultCritical, "usage in `PERCENT` that is critical")
	return c
}
