package ask

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/lake"
)

// openers are what a cell may be for, by kind.
var openers = map[string]cell.Opener{lake.CellKind: lake.Inside, ask.CellKind: ask.Inside}

// cellCommand is the process that answers questions from outside; users don't start it.
func (a *commands) cellCommand() *cobra.Command {
	return &cobra.Command{
		Use:         cell.Command + " KIND",
		Short:       "A process that answers questions from outside",
		Hidden:      true,
		Annotations: app.AboutNoSession(),
		Args:        cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			open := openers[args[0]]
			if open == nil {
				return app.Usage(fmt.Errorf("%s: unknown kind %q", cell.Command, args[0]))
			}
			return cell.Serve(cmd.Context(), open)
		},
	}
}
