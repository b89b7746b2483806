package cli

import "github.com/spf13/cobra"

// doctorFamily makes the commands of the package.
func doctorFamily(a *app) []*cobra.Command {
	return []*cobra.Command{a.doctorCommand(), a.debugCommand()}
}
