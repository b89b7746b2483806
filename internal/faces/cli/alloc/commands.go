// Package alloc holds the commands that replay a job against other allocators.
package alloc

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// commands makes the package's commands.
type commands struct{ *app.App }

// Commands returns the commands of the package.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.allocCommand()}
}
