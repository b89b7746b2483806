// Package observe holds the commands that bring a training under observation and take it out again: run, attach,
// detach, guard, and the process in the background.
package observe

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// commands makes the package's commands.
type commands struct{ *app.App }

// Commands returns the commands of the package.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.runCommand(), c.guardCommand(), c.attachCommand(), c.detachCommand(),
		c.collectorCommand()}
}
