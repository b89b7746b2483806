package cli

import "github.com/spf13/cobra"

// snapshotFamily makes the commands of the package.
func snapshotFamily(a *app) []*cobra.Command {
	return []*cobra.Command{a.snapshotCommand()}
}
