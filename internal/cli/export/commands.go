// Package export holds the commands that bring a session to other tools: export writes their formats and serves their
// protocols, mcp answers assistants.
package export

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/cli/app"
)

// commands are those of the package, with what all commands share.
type commands struct{ *app.App }

// Commands makes them.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.exportCommand(), c.mcpCommand()}
}
