package advise_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/advise"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/test/fakesession"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	sessions := golden.Job(t)
	kept := fakesession.Finished(t)
	kept.Job.Snapshot = &api.Kept{Path: "kept.pickle", PID: fakesession.Rank0, Taken: fakesession.Now}
	sessions["kept"] = kept
	files := map[string]string{"kept.pickle": "@testdata/snapshots/mosaic.pickle"}
	golden.Run(t, golden.Table{Families: []app.Family{advise.Commands}, Sessions: sessions, Files: files,
		Cases: []golden.Case{
			// What the machine has goes into the JSON and the file, which are not shown.
			{Name: "advise", Real: true, Lines: []string{"kept advise"}},
			{Name: "advise-wrong", Real: true, Lines: []string{"mute advise", "advise resnet", "advise --jsno",
				"none advise", "done advise --session elsewhere train.py"}},
			{Name: "estimate", Lines: []string{"done estimate", "resnet estimate --json",
				"done estimate --device-memory 16GiB", "done estimate --device-memory 'GTX 1650'", "mute estimate"}},
			{Name: "estimate-wrong", Lines: []string{"done estimate --steps 7", "done estimate --device-memory toaster",
				"estimate", "estimate --steps 0 train.py", "estimate --precision half train.py",
				"estimate --batch 0 train.py",
				"estimate python3", "estimate train",
				"estimate --device-memory 'GTX 99' train.py", "estimate --conf nonsense train.py",
				"estimate --session s train.py", "estimate --session s --batch 4", "estimate --batch many train.py"}},
		}})
}
