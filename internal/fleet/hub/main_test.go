package hub

import (
	"fmt"
	"os"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(hubChild); dir != "" {
		if err := runChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	env.Leftovers(m)
}
