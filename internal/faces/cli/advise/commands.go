// Package advise holds the commands that say which settings a training should have, and whether it will fit.
package advise

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// commands are those of the package, with what all commands share.
type commands struct{ *app.App }

// Commands makes them.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.adviseCommand(), c.estimateCommand()}
}
