// Package repair holds the commands that go from a leak that was found to one that is gone: fix proposes a change of
// the code and tries it, bisect finds what began the leak.
package repair

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// commands makes the package's commands.
type commands struct{ *app.App }

// Commands returns the commands of the package.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.fixCommand(), c.bisectCommand()}
}
