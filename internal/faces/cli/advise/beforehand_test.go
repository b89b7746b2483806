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
		{estimate.Run{Argv: []string{"train.py"}, Steps: 3}, all, []string{"train.py is run here up to 4 times",
			"for 3 steps", "--no-writes", "--no-network"}},
		{estimate.Run{Argv: []string{"-m", "pack.train"}, Steps: 2, Once: true}, all[:1], []string{"pack.train is run",
			"once, for 2 steps"}},
		{estimate.Run{Argv: []string{"a.py"}, NoWrites: true}, all[2:], []string{"up to 2 times", "writes no files",
			"--no-network"}},
		{estimate.Run{Argv: []string{"a.py"}, NoWrites: true, NoNetwork: true}, all[:1], []string{"has no network"}},
	} {
		got := beforehand(c.run, c.precisions)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: %q lacks %q", c.run, got, want)
			}
		}
	}
}
