package observe

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/memgauge/memgauge/internal/collector"
	"github.com/memgauge/memgauge/internal/keeper"
	"github.com/memgauge/memgauge/internal/session"
)

// Collect is the life of the collector of the session in dir; it ends with the session, or at once where another has
// it. The process belongs to it from then on: all files that it makes are the user's alone. It writes to log what it
// has to tell.
func Collect(ctx context.Context, dir string, log io.Writer) error {
	session.PrivateFiles()
	s, err := session.Open(dir)
	if err != nil {
		return err
	}
	err = collector.New(s, slog.New(slog.NewTextHandler(log, nil))).Run(ctx)
	if errors.Is(err, session.ErrLocked) {
		return nil
	}
	return err
}

// Keep sees to it that the session in dir has a collector, until it is over or ctx ends; where another process does
// that, it comes back at once. Like Collect it has the process for itself.
func Keep(ctx context.Context, dir string) error {
	session.PrivateFiles()
	s, err := session.Open(dir)
	if err != nil {
		return err
	}
	return keeper.Run(ctx, s, func(error) {})
}
