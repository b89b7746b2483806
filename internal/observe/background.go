package observe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/memgauge/memgauge/internal/collector"
	"github.com/memgauge/memgauge/internal/keeper"
	"github.com/memgauge/memgauge/internal/session"
)

// Collect is the collector of the session in dir. It returns when the session is over, or at once where another process
// has it. It sets the umask of this process, so that all files made from then on are the user's alone. log gets what
// happens meanwhile, a line each.
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

// Keep starts a collector for the session in dir whenever it has none. It returns when the session is over or ctx ends,
// or at once where another process does this already. Like Collect it sets the umask.
func Keep(ctx context.Context, dir string) error {
	session.PrivateFiles()
	s, err := session.Open(dir)
	if err != nil {
		return err
	}
	return keeper.Run(ctx, s, func(error) {})
}

// Log writes to f, a session's collector.log that is open for appending, and keeps it within 1 MiB: the newest lines
// stay. What is no regular file has no bound.
func Log(f *os.File) io.Writer { return keeper.NewLog(f) }
