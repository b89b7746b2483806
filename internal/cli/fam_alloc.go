package cli

import "github.com/spf13/cobra"

// allocFamily makes the commands of the package.
func allocFamily(a *app) []*cobra.Command {
	return []*cobra.Command{a.allocCommand()}
}
