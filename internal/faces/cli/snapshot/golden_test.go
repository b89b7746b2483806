package snapshot_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/snapshot"
	"github.com/memgauge/memgauge/test/golden"
)

const largest = "SELECT site, sum(requested) AS bytes FROM blocks GROUP BY site ORDER BY bytes DESC, site LIMIT 3"

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{snapshot.Commands}, Sessions: golden.Job(t), Cases: []golden.Case{
		{Name: "snapshot", Lines: []string{"snapshot a.pickle", "snapshot --json a.pickle", "done snapshot",
			"mute snapshot"}},
		{Name: "snapshot-wrong", Lines: []string{"snapshot none.pickle", "snapshot text.pickle", "snapshot a b c",
			"snapshot --memory little a.pickle", "snapshot --memory 1KiB a.pickle", "snapshot .",
			"snapshot diff a.pickle"}},
		{Name: "diff", Lines: []string{"snapshot diff a.pickle a.pickle", "snapshot diff a.pickle a.pickle --json"}},
		{Name: "take", Lines: []string{"resnet snapshot take", "resnet snapshot take --rank 1 -o now.pickle",
			"cat now.pickle",
			"done snapshot take", "mute snapshot take", "resnet snapshot take --rank 5",
			"resnet snapshot take now.pickle"}},
		{Name: "record", Lines: []string{"resnet snapshot record --on", "resnet snapshot record --off --all",
			"done snapshot record --on", "mute snapshot record --on", "resnet snapshot record",
			"resnet snapshot record --on --off", "resnet snapshot record --on --stacks java",
			"resnet snapshot record --on --max-entries 0"}},
		{Name: "query", Lines: []string{"snapshot query a.pickle '" + largest + "'",
			"snapshot query -f json a.pickle '" + largest + "'", "snapshot query a.pickle",
			"snapshot query -f xml a.pickle 'SELECT 1'",
			"snapshot query a.pickle 'SELECT nothing'", "snapshot query none.pickle 'SELECT 1'"}},
		{Name: "tables", Lines: []string{"snapshot tables a.pickle", "snapshot tables a.pickle blocks",
			"snapshot tables a.pickle bloks", "snapshot tables"}},
		{Name: "flame", Lines: []string{"snapshot flame a.pickle -o peak.folded", "snapshot flame a.pickle",
			"snapshot flame a.pickle -o peak.doc", "snapshot flame a.pickle --at noon -o peak.svg",
			"snapshot flame a.pickle --device 7 -o peak.svg", "snapshot flame a.pickle --by segment -o end.folded",
			"snapshot flame a.pickle --by block -o end.folded",
			"snapshot flame a.pickle --by segment --at peak -o end.folded"}},
		{Name: "timeline", Lines: []string{"snapshot timeline a.pickle",
			"snapshot timeline a.pickle -o a.png", "snapshot timeline none.pickle -o a.html"}},
		{Name: "stages", Lines: []string{"snapshot stages a.pickle", "snapshot stages a.pickle --each --annotation 3",
			"snapshot stages a.pickle --json --each", "snapshot stages a.pickle --annotation none",
			"snapshot stages none.pickle", "snapshot stages"}},
		{Name: "categories", Lines: []string{"snapshot categories a.pickle --category 'baz=baz\\.py' --moments 4",
			"snapshot categories a.pickle --category baz=baz --moments 2 --json",
			"snapshot categories a.pickle --category baz", "snapshot categories a.pickle --category 'a=('",
			"snapshot categories a.pickle --moments 0",
			"snapshot categories a.pickle --by metadata --moments 1", "snapshot categories a.pickle --by frame",
			"snapshot categories a.pickle -o a.bmp", "snapshot categories a.pickle -o a.svg --json"}},
		{Name: "export", Lines: []string{"snapshot export a.pickle --protocol4 b.pickle",
			"snapshot export a.pickle --perfetto a.json", "snapshot export a.pickle",
			"snapshot export a.pickle --perfetto a.txt"}},
		{Name: "jax", Lines: []string{"snapshot jax.pprof", "snapshot --json jax.pprof",
			"snapshot diff jax.pprof jax.pprof",
			"snapshot flame jax.pprof -o jax.svg"}},
	}, Files: map[string]string{"a.pickle": "@testdata/snapshots/mosaic.pickle", "text.pickle": "no snapshot",
		"jax.pprof": "@testdata/jax/jax-0.10.pprof"}})
}
