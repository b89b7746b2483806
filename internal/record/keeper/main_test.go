package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// As a collector, this binary says that it is itself. With loseFile it is a program whose file was removed.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "memgauge" {
		fmt.Println(itself)
		os.Exit(0)
	}
	if dir := os.Getenv(loseFile); dir != "" {
		if err := spawnWithoutFile(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	env.Leftovers(m)
}
