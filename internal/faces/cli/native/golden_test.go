package native_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/native"
	"github.com/memgauge/memgauge/test/fakesession"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	sessions := golden.Job(t)
	plain, rows := fakesession.Finished(t), fakesession.Rows()
	rows.NativeLive, rows.NativeStacks = nil, nil
	plain.Rows = fakesession.Stored(t, rows)
	sessions["plain"] = plain
	golden.Run(t, golden.Table{Families: []app.Family{native.Commands}, Sessions: sessions, Cases: []golden.Case{
		{Name: "native", Lines: []string{"resnet native", "done native --json --top 1", "plain native", "mute native",
			"native resnet", "resnet native --top -1", "resnet native --at noon"}},
		{Name: "diff", Lines: []string{"resnet native diff", "done native diff --from 2m --to peak --json",
			"plain native diff", "mute native diff", "done native diff --from tomorrow", "done native diff --from -3s",
			"done native diff 1 2"}},
		{Name: "flame", Lines: []string{"done native flame --at growth -o grown.folded", "done native flame --json",
			"done native flame -o held.svg", "plain native flame -o held.svg", "mute native flame -o held.svg",
			"done native flame", "done native flame -o held.doc",
			"done native flame -o held.svg --json", "done native flame --at now-ish -o held.svg"}},
	}})
}
