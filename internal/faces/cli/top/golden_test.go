package top_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/top"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{top.Commands}, Sessions: golden.Job(t), Cases: []golden.Case{
		{Name: "top", Lines: []string{"done top --once --width 100 --height 40", "mute top --once"}},
		{Name: "top-wrong", Lines: []string{"resnet top", "resnet top --interval 1ms", "resnet top --interval often",
			"top --replay 3", "resnet top --replay 3 --once", "resnet top --replay -1",
			"resnet top --once --width 0 --height 0",
			"top resnet"}},
	}})
}
