package repair_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/repair"
	"github.com/memgauge/memgauge/test/env"
	"github.com/memgauge/memgauge/test/golden"
)

func TestMain(m *testing.M) { env.Leftovers(m) }

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{repair.Commands}, Sessions: golden.Job(t), Cases: []golden.Case{
		{Name: "fix", Lines: []string{"resnet fix", "resnet fix --json", "resnet fix --prompt", "done fix",
			"mute fix"}},
		{Name: "fix-wrong", Lines: []string{"fix a b", "resnet fix --unsafe", "resnet fix --prompt --apply",
			"resnet fix --losses -1", "resnet fix done", "resnet fix --aply"}},
		{Name: "bisect-wrong", Lines: []string{"bisect", "bisect -- python train.py", "bisect --good v1",
			"bisect --good v1 --vary a=1 -- python train.py", "bisect --lock-before a -- python train.py",
			"bisect --vary size -- python train.py", "bisect --vary size=1,2 -- python train.py",
			"bisect --batch-size 1 --vary a=2 -- python train.py",
			"bisect --lock-before a --lock-after b -- python train.py", "bisect --goood v1"}},
	}})
}
