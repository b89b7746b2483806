package cli

import (
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/collector"
	"github.com/memgauge/memgauge/internal/keeper"
	"github.com/memgauge/memgauge/internal/secret"
	"github.com/memgauge/memgauge/internal/session"
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
			session.PrivateFiles()
			a.stderr = secret.Writer{W: a.stderr} // collector.log, to which an error may bring what it is about
			s, err := session.Open(a.sessionDir)
			if err != nil {
				return err
			}
			if keep {
				return keeper.Run(cmd.Context(), s, func(error) {})
			}
			err = collector.New(s, slog.New(slog.NewTextHandler(a.log(), nil))).Run(cmd.Context())
			if errors.Is(err, session.ErrLocked) {
				return nil
			}
			return err
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "see to it that there is one until the session is over")
	return c
}

// log is standard error, which for a collector is its log.
func (a *app) log() io.Writer {
	if f, ok := a.stderr.(*os.File); ok {
		return keeper.NewLog(f)
	}
	return a.stderr
}
