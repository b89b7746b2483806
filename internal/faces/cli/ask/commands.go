// Package ask holds the commands that query a session: SQL, lists, code, stacks, censuses, bytes, and the prompt for
// all of them.
package ask

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// commands makes the package's commands.
type commands struct{ *app.App }

// Commands returns the commands of the package.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.queryCommand(), c.tablesCommand(), c.listCommand(), c.evalCommand(),
		c.backtraceCommand(), c.tensorsCommand(), c.whereCommand(), c.interactiveCommand(), c.cellCommand()}
}
