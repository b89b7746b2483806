package trino

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/fleet/lake"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "memgauge" { // a cell
		fmt.Fprintln(os.Stderr, cell.Serve(context.Background(), lake.Inside))
		os.Exit(1)
	}
	os.Exit(m.Run())
}
