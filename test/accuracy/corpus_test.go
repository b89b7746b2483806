package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/faces/cli"
	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) { env.Main(m, cli.Main) }

// TestCorpus runs one program that leaks and its repaired twin through the harness; make accuracy runs all.
func TestCorpus(t *testing.T) {
	env.Long(t, "programs of the corpus to their end, in real time")
	home := t.TempDir()
	t.Setenv("MEMGAUGE_HOME", filepath.Join(home, "state"))
	c := corpus{memgauge: env.Memgauge(t, home), python: env.Torch(t).Path, dir: "corpus", limit: 10 * time.Minute,
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

// TestManifests holds what a stranger relies on: twins are pairs, accepted lines exist, classes are those of findings.
func TestManifests(t *testing.T) {
	classes := []string{"retained_tensors", "retained_objects", "autograd_graph", "gc_cycles", "native_heap",
		"shared_memory", "worker_growth", "outside_allocator", "unknown"}
	for _, dir := range []string{"corpus", filepath.Join("corpus", "hard"), filepath.Join("corpus", "wild"),
		filepath.Join("corpus", "reports")} {
		programs, err := corpus{dir: dir}.programs()
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{}
		for _, e := range programs {
			labels[e.Name] = e.Label
		}
		for _, e := range programs {
			text, err := os.ReadFile(filepath.Join(dir, e.File))
			if err != nil {
				t.Error(err)
			}
			lines := strings.Count(string(text), "\n")
			if lines > 100 {
				t.Errorf("%s has %d lines", e.Name, lines)
			}
			leak := e.Label == "leak"
			if twin, ok := labels[e.Pair]; !ok || twin == e.Label {
				t.Errorf("%s has no twin of the other label", e.Name)
			}
			if leak != (e.Rate > 0) || leak != (len(e.Sites) > 0) || leak != (len(e.Classes) > 0) ||
				leak != (e.Start != nil) {
				t.Errorf("%s: rate, sites, classes or start don't fit a program that is %s", e.Name, e.Label)
			}
			for _, c := range e.Classes {
				if !slices.Contains(classes, c) {
					t.Errorf("%s: class %q", e.Name, c)
				}
			}
			for _, s := range e.Sites {
				file, line, _ := strings.Cut(s, ":")
				if n, err := strconv.Atoi(line); err != nil || n < 1 || n > lines || file != filepath.Base(e.File) {
					t.Errorf("%s: no line %s", e.Name, s)
				}
			}
		}
	}
}
