package lake

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "memgauge" { // a cell
		fmt.Fprintln(os.Stderr, cell.Serve(context.Background(), Inside))
		os.Exit(1)
	}
	if os.Getenv(childKey) != "" { // the writer that tests kill
		child()
		return
	}
	env.Leftovers(m)
}
