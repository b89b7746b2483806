package alloc_test

import (
	"regexp"
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/alloc"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/test/golden"
)

// measured is how long a replay took on this machine: the last column, with its width, and a member of the JSON.
var measured = regexp.MustCompile(`(?m)\| +[\d.]+ (µs|ms|s)$|\+-+$|\| +time$|"seconds": [\d.e-]+`)

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{alloc.Commands}, Sessions: golden.Job(t), Cases: []golden.Case{
		{Name: "replay", Varies: measured, Lines: []string{"alloc replay a.pickle",
			"alloc replay a.pickle --json --policy torch",
			"alloc replay a.pickle --capacity 1MiB", "mute alloc replay", "done alloc replay"}},
		{Name: "replay-wrong", Lines: []string{"alloc replay none.pickle", "alloc replay text.pickle",
			"alloc replay a.pickle --policy best", "alloc replay a.pickle --conf speed:up",
			"alloc replay a.pickle --device 9",
			"alloc replay a.pickle --capacity plenty", "alloc replay a.pickle --plot a.doc", "alloc replay a b",
			"alloc replay --repeat 0 a.pickle"}},
		{Name: "advise", Varies: measured, Lines: []string{"alloc advise a.pickle", "mute alloc advise",
			"alloc advise none.pickle", "alloc advise a.pickle --device x", "alloc advise a b"}},
		{Name: "convert", Lines: []string{"alloc convert a.pickle events.csv", "alloc convert a.pickle",
			"alloc convert a.pickle b.doc",
			"alloc convert none.pickle b.csv"}},
		{Name: "bench-wrong", Lines: []string{"alloc bench --policy best", "alloc bench --rounds 0",
			"alloc bench --pairs few",
			"alloc bench now", "alloc", "alloc relpay"}},
	}, Files: map[string]string{"a.pickle": "@testdata/snapshots/mosaic.pickle", "text.pickle": "no snapshot"}})
}
