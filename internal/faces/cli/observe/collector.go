package observe

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/faces/observe"
)

// collectorCommand is the background process of a session; users don't start it.
func (a *commands) collectorCommand() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:    "collector --session DIR",
		Short:  "The background process of a session",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Stderr = a.collectorLog()
			if keep {
				leave := a.takeOver(cmd.Context(), a.SessionDir)
				defer leave()
				return observe.Keep(cmd.Context(), a.SessionDir)
			}
			return observe.Collect(cmd.Context(), a.SessionDir, a.Stderr)
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "see to it that there is one until the session is over")
	return c
}

// collectorLog takes the place of standard error in the background process. It writes to collector.log, which is
// bounded. It hides secrets, including those in the error with which the process ends.
func (a *commands) collectorLog() io.Writer {
	w := a.Stderr
	if f, ok := term.FileOf(w); ok {
		w = term.NewEdge(observe.Log(f))
	}
	return secret.Writer{W: w}
}
