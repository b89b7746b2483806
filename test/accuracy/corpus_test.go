package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/cli"
	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) { env.Main(m, cli.Main) }

// TestCorpus runs one program that leaks and its repaired twin through the harness; make accuracy runs all.
func TestCorpus(t *testing.T) {
	home := t.TempDir()
	t.Setenv("MEMGAUGE_HOME", filepath.Join(home, "state"))
	c := corpus{memgauge: env.Memgauge(t, home), python: env.Torch(t).Path, dir: "corpus",
		only: []string{"c013", "c014"}}
	var out bytes.Buffer
	if err := c.measure(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| precision | 1.000 (1 of 1) |", "| recall | 1.000 (1 of 1) |",
		"| false alarms | 0.000 (0 of 1) |", "| undecided | 0.000 (0 of 2) |",
		"| false alarms at 75 % | 0.000 (0 of 1), 0.0 in 29 |",
		"| holder or line right, of the leaks found | 1.000 (1 of 1) |",
		"| class right, of the leaks found | 1.000 (1 of 1) |", "| autograd_graph | right |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
