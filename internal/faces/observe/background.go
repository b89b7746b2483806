package observe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/memgauge/memgauge/internal/door/collector"
	"github.com/memgauge/memgauge/internal/record/keeper"
	"github.com/memgauge/memgauge/internal/record/session"
)

// Collect runs the collector of the session in dir. It returns when the session is over, or at once if the session has
// another collector. It sets the umask of this process, so that only the user can access the files that it makes. log
// gets a line for each event worth a record.
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
// or at once if another process does this already. Like Collect it sets the umask.
func Keep(ctx context.Context, dir string) error {
	session.PrivateFiles()
	s, err := session.Open(dir)
	if err != nil {
		return err
	}
	return keeper.Run(ctx, s, func(error) {})
}

// Log writes to f, a session's collector.log that is open for appending. It keeps the newest lines, at most 1 MiB of
// them. If f is not a regular file, it is not bounded.
func Log(f *os.File) io.Writer { return keeper.NewLog(f) }
