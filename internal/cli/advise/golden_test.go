package advise_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/cli/advise"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{advise.Commands}, Sessions: golden.Job(t), Cases: []golden.Case{
		{Name: "advise-wrong", Real: true, Lines: []string{"mute advise", "advise resnet", "advise --jsno",
			"none advise", "done advise --session elsewhere train.py"}},
		{Name: "estimate", Lines: []string{"done estimate", "resnet estimate --json",
			"done estimate --device-memory 16GiB", "done estimate --device-memory 'GTX 1650'", "mute estimate"}},
		{Name: "estimate-wrong", Lines: []string{"done estimate --steps 7", "done estimate --device-memory toaster",
			"estimate", "estimate --steps 0 train.py", "estimate --precision half train.py",
			"estimate --batch 0 train.py",
			"estimate --batch many train.py"}},
	}})
}
