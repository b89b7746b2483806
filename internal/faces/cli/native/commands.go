// Package native holds the commands about native memory: what C code holds, by line, as a flame graph, and between two
// moments.
package native

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// commands are those of the package, with what all commands share.
type commands struct{ *app.App }

// Commands makes them.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.nativeCommand()}
}
