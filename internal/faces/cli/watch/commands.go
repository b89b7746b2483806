// Package watch holds the commands that watch memory for a while, judge it and report: profile, oom, fragment,
// monitor, leak, report, web, distributed.
package watch

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// commands makes the package's commands.
type commands struct{ *app.App }

// Commands returns the commands of the package.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.profileCommand(), c.oomCommand(), c.fragmentCommand(), c.monitorCommand(),
		c.leakCommand(), c.baselineCommand(), c.reportCommand(), c.webCommand(), c.feedCommand(),
		c.distributedCommand()}
}
