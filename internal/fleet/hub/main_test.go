package hub

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "memgauge" { // a cell
		fmt.Fprintln(os.Stderr, cell.Serve(context.Background(), lake.Inside))
		os.Exit(1)
	}
	if dir := os.Getenv(hubChild); dir != "" {
		if err := runChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// a stream that is being made while its server is lost outlives it: nats-server 2.15.2, filestore.go
	const server = "github.com/nats-io/nats-server/v2/server"
	env.Leftovers(m, goleak.IgnoreAnyFunction(server+"/ats.Register.func1"),
		goleak.IgnoreAnyFunction(server+".(*fileStore).flushStreamStateLoop"))
}
