package watch

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// forecastWindow is how long growth must be watched before it is extrapolated: a program's start grows like a leak.
const forecastWindow = forecast.DefaultWindow * time.Second

func (a *commands) oomCommand() *cobra.Command {
	o := watchOptions{tool: "oom"}
	window, forever := units.Duration(forecastWindow), false
	c := &cobra.Command{
		Use:   "oom",
		Short: "Warn before the memory runs out, and say when it will",
		Long: "Judges the risk that the host (its cgroup, where that limits it) or a GPU runs out of memory: from the trend of the floor that each\n" +
			"step comes back to, and from what a step needs above it. Growth that is given back, that happened once or that dies down raises no\n" +
			"alarm. With an ENDPOINT it judges that session, at once from what is recorded unless --duration or --monitor is given; without one\n" +
			"the whole machine. Exit code 3 means that the risk was high or critical.",
		Example: "  memgauge oom --threshold 85 --monitor\n" +
			"  memgauge oom --threshold 80 --duration 300 --output oom_report.json\n" +
			"  memgauge 27891 oom",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.take(c, args); err != nil {
				return err
			}
			if forever && !c.Flags().Changed("duration") {
				o.duration = 0
			}
			o.oom.Window = time.Duration(window)
			if a.Many() {
				return a.oomMany(c.Context(), o)
			}
			return found(a.watch(c.Context(), o))
		},
	}
	f := c.Flags()
	o.AddFlags(f, "300", "2")
	o.addPlot(f)
	f.Float64Var(&o.oom.Threshold, "threshold", forecast.DefaultThreshold,
		"usage in `PERCENT` of the limit that alone is worth a warning")
	f.Float64Var(&o.oom.Critical, "critical", forecast.DefaultCritical, "usage in `PERCENT` that is critical")
	f.Var(&window, "window", "growth must go on for so many seconds, past the start, before it warns")
	f.Lookup("window").DefValue = "30 s"
	f.BoolVar(&forever, "monitor", false, "go on watching: until Ctrl-C, or for --duration where that is given")
	return c
}

// oomMany judges the risk of each session of many machines.
func (a *commands) oomMany(ctx context.Context, o watchOptions) error {
	if one, err := a.Narrow(ctx); err != nil {
		return fmt.Errorf("oom: %w", err)
	} else if one {
		return found(a.watch(ctx, o))
	}
	if o.output != "" || o.plot != "" {
		return a.OneFile()
	}
	return app.Put(ctx, a.App, app.Question[watched]{Role: source.OOM, JSON: o.json,
		Ask: func(ctx context.Context, t ask.Target) (v watched, err error) {
			src, err := targetSource(ctx, t, o.timed)
			if err != nil {
				return v, fmt.Errorf("oom: %w", err)
			}
			defer src.Close()
			o := o // its pace changes
			var warnings strings.Builder
			v, err = o.look(ctx, src, &screen{line: term.NewStatusLine(io.Discard), warnings: &warnings, tool: o.tool})
			v.warnings = warnings.String()
			return v, err
		},
		Text: func(w io.Writer, v watched) error {
			_, err := io.WriteString(w, v.warnings+v.text())
			return err
		},
		Document: func(v watched) any { return v.report },
		Outcome:  func(v watched) error { return found(v.watch, nil) }})
}
