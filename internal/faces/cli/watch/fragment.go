package watch

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

func (a *commands) fragmentCommand() *cobra.Command {
	o := watchOptions{tool: "fragment"}
	c := &cobra.Command{
		Use:   "fragment",
		Short: "Count the holes between blocks in use, on the heap and on GPUs",
		Long: "Asks the allocators of a session's live processes for their blocks (glibc's malloc_info, PyTorch's segments) and tells how much free\n" +
			"memory lies between blocks in use, in how many holes of what size, and what would come back. It never guesses from totals: where\n" +
			"blocks can't be had it says so. Asking stops an allocator for about 1 µs a hole. Without --duration it looks once.\n" +
			"Exit code 3 means that a quarter of the memory or more is lost in holes.",
		Example: "  memgauge 27891 fragment\n" +
			"  memgauge fragment --duration 120 --plot --output fragment.json\n" +
			"  memgauge train-7 fragment --duration 300 --interval 5.0",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.take(c, args); err != nil {
				return err
			}
			if o.history < 2 {
				return app.Usage(fmt.Errorf("fragment: --max-history %d: at least 2", o.history))
			}
			o.blocks = time.Duration(o.interval)
			w, err := a.watch(c.Context(), o)
			if err == nil && w.Fragmented() {
				return app.Exit(app.ExitFindings, nil)
			}
			return err
		},
	}
	f := c.Flags()
	o.AddFlags(f, "120", "2")
	o.addPlot(f)
	f.IntVar(&o.history, "max-history", 1000, "keep at most `N` looks; then every second one is dropped")
	o.oom.Threshold, o.oom.Critical = 0, 0
	return c
}
