package cli

import "github.com/spf13/cobra"

// watchFamily makes the commands of the package.
func watchFamily(a *app) []*cobra.Command {
	return []*cobra.Command{a.profileCommand(), a.oomCommand(), a.fragmentCommand(), a.monitorCommand(), a.leakCommand(), a.reportCommand(), a.feedCommand(), a.distributedCommand()}
}
