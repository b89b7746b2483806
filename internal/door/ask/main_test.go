package ask

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/door/collector"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/test/env"
)

// TestMain: this binary is the collector of a session, and its keeper, where package keeper starts it as one.
func TestMain(m *testing.M) {
	if os.Args[0] == "memgauge" {
		if err := background(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	env.Leftovers(m)
}

const (
	pidFile    = "collector.pid" // of the collector that was started last, in its session
	brokenFile = "broken"        // where it lies no collector can start
)

func background(args []string) error {
	if args[0] == cell.Command {
		return cell.Serve(context.Background(), Inside)
	}
	if slices.Contains(args, "--keep") {
		return nil // a test says itself when there is to be another collector
	}
	s, err := session.Open(args[len(args)-1])
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.Dir, brokenFile)); err == nil {
		return fmt.Errorf("%s: it was told not to start", s.Dir)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, pidFile), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	return collector.New(s, slog.New(slog.NewTextHandler(io.Discard, nil))).Run(context.Background())
}
