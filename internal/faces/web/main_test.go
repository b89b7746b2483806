package web_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/memgauge/memgauge/test/env"

	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/fleet/lake"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "memgauge" { // the cell of a lake
		fmt.Fprintln(os.Stderr, cell.Serve(context.Background(), lake.Inside))
		os.Exit(1)
	}
	env.Leftovers(m)
}
