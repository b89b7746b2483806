package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/test/env"
)

// TestMain: this binary is a node where the environment says so.
func TestMain(m *testing.M) {
	if os.Args[0] == "memgauge" { // a cell
		open := map[string]cell.Opener{lake.CellKind: lake.Inside, ask.CellKind: ask.Inside}[os.Args[2]]
		fmt.Fprintln(os.Stderr, cell.Serve(context.Background(), open))
		os.Exit(1)
	}
	if text := os.Getenv(childKey); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// a stream that is being made while its server is lost outlives it: nats-server 2.15.2, filestore.go
	const server = "github.com/nats-io/nats-server/v2/server"
	env.Leftovers(m, goleak.IgnoreAnyFunction(server+"/ats.Register.func1"),
		goleak.IgnoreAnyFunction(server+".(*fileStore).flushStreamStateLoop"))
}

// childKey is set to a node's settings, for a node in a process of its own.
const childKey = "NODE_TEST_CHILD"

// shipEvery is how often nodes of tests look for rows.
const shipEvery = 20 * time.Millisecond

func runChild(text string) error {
	var s node.Settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	o, err := s.Options(os.Getenv("MEMGAUGE_HOME"), os.Getenv)
	if err != nil {
		return err
	}
	o.Every, o.Log = shipEvery, slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return node.Run(ctx, o)
}
