package observe

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestMain: this binary is the process in the background of a session where package keeper starts it as one.
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

func background(args []string) error {
	dir := args[len(args)-1]
	if slices.Contains(args, "--keep") {
		return Keep(context.Background(), dir)
	}
	return Collect(context.Background(), dir, os.Stderr)
}
