// Package scripts holds the command line to what users are promised: output, errors, exit codes and files, one
// testscript a behaviour, run with the memgauge that this test binary contains.
package scripts

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/memgauge/memgauge/internal/faces/cli"
	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"memgauge": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		// exits CODE CMD…: CMD ends with just that code.
		"exits": func() { os.Exit(exits(os.Args[1:])) },
	})
}

// exits runs memgauge in this process and turns the expected code into success.
func exits(args []string) int {
	want, err := strconv.Atoi(args[0])
	if err != nil || len(args) < 2 || args[1] != "memgauge" {
		os.Stderr.WriteString("usage: exits CODE memgauge …\n")
		return 1
	}
	if got := cli.Main(args[2:], os.Stdin, os.Stdout, os.Stderr); got != want {
		os.Stderr.WriteString("exit " + strconv.Itoa(got) + ", want " + strconv.Itoa(want) + "\n")
		return 1
	}
	return 0
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("MEMGAUGE_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("MEMGAUGE_TARGET", "")
			e.Setenv("SNAPSHOTS", filepath.Join(env.Checkout(), "testdata", "snapshots"))
			return nil
		},
	})
}
