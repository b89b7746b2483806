package cli

import "github.com/spf13/cobra"

// askFamily makes the commands of the package.
func askFamily(a *app) []*cobra.Command {
	return []*cobra.Command{a.queryCommand(), a.tablesCommand(), a.listCommand(), a.evalCommand(), a.backtraceCommand(), a.tensorsCommand(), a.whereCommand(), a.interactiveCommand()}
}
