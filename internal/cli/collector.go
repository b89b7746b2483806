package cli

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/collector"
	"github.com/memgauge/memgauge/internal/secret"
	"github.com/memgauge/memgauge/internal/session"
)

// collectorCommand is the background process of a session; users don't start it.
func (a *app) collectorCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "collector --session DIR",
		Short:  "The background process of a session",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			session.PrivateFiles()
			a.stderr = secret.Writer{W: a.stderr} // collector.log, to which an error may bring what it is about
			s, err := session.Open(a.sessionDir)
			if err != nil {
				return err
			}
			err = collector.New(s, slog.New(slog.NewTextHandler(a.stderr, nil))).Run(cmd.Context())
			if errors.Is(err, session.ErrLocked) {
				return nil
			}
			return err
		},
	}
}
