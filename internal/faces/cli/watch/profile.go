package watch

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

func (a *commands) profileCommand() *cobra.Command {
	o := watchOptions{tool: "profile"}
	c := &cobra.Command{
		Use:   "profile",
		Short: "Record the memory of host and GPUs for a while",
		Long: "Reads the memory of the host and of each GPU at an interval and reports current, mean and highest use. With an ENDPOINT it reads\n" +
			"that session, and what was recorded of it before; without one the whole machine, limited by the cgroup where there is one.\n" +
			"Ctrl-C ends it early; the report is written all the same.",
		Example: "  memgauge profile --duration 60 --output profile.json\n" +
			"  memgauge profile --devices 0 1 --duration 0 --plot memory.png\n" +
			"  memgauge 27891 profile --plot memory.html",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.take(c, args); err != nil {
				return err
			}
			if o.history < 2 {
				return app.Usage(fmt.Errorf("profile: --max-snapshots %d: at least 2", o.history))
			}
			o.blocks = blocksEvery
			_, err := a.watch(c.Context(), o)
			return err
		},
	}
	f := c.Flags()
	o.AddFlags(f, "60", "0.1")
	o.addPlot(f)
	f.IntVar(&o.history, "max-snapshots", 10000, "keep at most `N` readings of each device; then neighbours are merged")
	o.oom.Threshold, o.oom.Critical = forecast.DefaultThreshold, forecast.DefaultCritical
	o.oom.Window = forecastWindow
	return c
}
