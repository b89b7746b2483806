package advise

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/estimate"
)

// TestBeforehand: who has a script estimated is told how often it will run, and what it may do.
func TestBeforehand(t *testing.T) {
	all := []string{estimate.AsIs, estimate.Mixed, estimate.Half}
	for _, c := range []struct {
		run        estimate.Run
		precisions []string
		want       []string
	}{
		{estimate.Run{Argv: []string{"train.py"}, Steps: 3}, all, []string{"train.py is run here up to 5 times",
			"for 3 steps", "--writes", "--network"}},
		{estimate.Run{Argv: []string{"-m", "pack.train"}, Steps: 2, Once: true}, all[:1], []string{"pack.train is run",
			"once, for 2 steps"}},
		{estimate.Run{Argv: []string{"a.py"}, Shapes: true, Fence: estimate.Fence{Files: estimate.FilesView}}, all[2:],
			[]string{"up to 2 times", "a copy that is removed", "has the network"}},
		{estimate.Run{Argv: []string{"a.py"}, Fence: estimate.Fence{Files: estimate.FilesShut,
			Network: estimate.NetworkOwn}}, all[:1], []string{"temporary files", "has no network"}},
	} {
		got := beforehand(c.run, c.precisions)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: %q lacks %q", c.run, got, want)
			}
		}
	}
}
