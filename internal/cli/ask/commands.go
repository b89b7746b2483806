// Package ask holds the commands that ask a session: SQL, lists, code, stacks, censuses, bytes, and the prompt for all
// of it.
package ask

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/cli/app"
)

// commands are those of the package, with what all commands share.
type commands struct{ *app.App }

// Commands makes them.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.queryCommand(), c.tablesCommand(), c.listCommand(), c.evalCommand(),
		c.backtraceCommand(), c.tensorsCommand(), c.whereCommand(), c.interactiveCommand()}
}
