package cli

import "github.com/spf13/cobra"

// observeFamily makes the commands of the package.
func observeFamily(a *app) []*cobra.Command {
	return []*cobra.Command{a.runCommand(), a.attachCommand(), a.detachCommand(), a.collectorCommand()}
}
