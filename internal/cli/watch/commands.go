// Package watch holds the commands that look at memory for a while, judge it and report: profile, oom, fragment,
// monitor, leak, report, web.
package watch

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/cli/app"
)

// commands are those of the package, with what all commands share.
type commands struct{ *app.App }

// Commands makes them.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.profileCommand(), c.oomCommand(), c.fragmentCommand(), c.monitorCommand(),
		c.leakCommand(), c.baselineCommand(), c.reportCommand(), c.webCommand(), c.feedCommand(),
		c.distributedCommand()}
}
