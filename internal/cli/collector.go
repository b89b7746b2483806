package cli

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/observe"
	"github.com/memgauge/memgauge/internal/secret"
)

// collectorCommand is the background process of a session; users don't start it.
func (a *app) collectorCommand() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:    "collector --session DIR",
		Short:  "The background process of a session",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.stderr = secret.Writer{W: a.stderr} // collector.log, to which an error may bring what it is about
			if keep {
				return observe.Keep(cmd.Context(), a.sessionDir)
			}
			return observe.Collect(cmd.Context(), a.sessionDir, a.stderr)
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "see to it that there is one until the session is over")
	return c
}
