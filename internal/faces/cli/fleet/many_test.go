package fleet

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/snapshot"
	"github.com/memgauge/memgauge/internal/faces/cli/watch"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// asked is the question that a command line makes; nil for one that asks this machine.
func asked(t *testing.T, line string) (q *question, a *app.App) {
	t.Helper()
	for _, name := range []string{"MEMGAUGE_TARGET", "MEMGAUGE_HUB", "MEMGAUGE_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	a = &app.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		Families: []app.Family{Commands, ask.Commands, watch.Commands, snapshot.Commands},
		Elsewhere: func(_ context.Context, a *app.App, c *cobra.Command, args, line []string) error {
			q = &question{App: a, c: c, args: args, line: line}
			return nil
		}}
	if err := a.Execute(t.Context(), strings.Fields(line)); err != nil && q != nil {
		t.Errorf("%s: %v", line, err)
	}
	return q, a
}

// TestAsksOne: a command whose answers can't be put together is asked of the one session that there is, and refused
// where there are several.
func TestAsksOne(t *testing.T) {
	for line, one := range map[string]bool{"eval len(x)": true, "eval --all len(x)": false, "report": true,
		"report --json": false, "snapshot": true, "snapshot take -o x": true, "leak": false,
		"tables python.steps": false} {
		if q, _ := asked(t, "hub "+line); q == nil || q.asksOne() != one {
			t.Errorf("%q: %v", line, !one)
		}
	}
}

// TestComparesRanks: a plain leak is one message to all nodes, whatever is said of the way to them.
func TestComparesRanks(t *testing.T) {
	for line, plain := range map[string]bool{"leak": true, "leak --json --strict": true, "--deadline 9s leak": true,
		"leak --threshold 3": false, "where": false} {
		if q, _ := asked(t, "hub "+line); q == nil || q.comparesRanks() != plain {
			t.Errorf("%q: %v", line, !plain)
		}
	}
}

// TestFlagsOfTheWay: what is said of a hub may stand before the command or behind it; before it, it is the hub's even
// where the command has a flag of that name. The statement behind them stays one.
func TestFlagsOfTheWay(t *testing.T) {
	for _, c := range []struct {
		line, token, target string
		args                []string
	}{
		{line: "hub --strict --deadline=9s --token-file f query SELECT", token: "f", args: []string{"SELECT"}},
		{line: "job=a,rank=7 query SELECT --strict --token-file f --deadline 9s", token: "f", args: []string{"SELECT"}},
		{line: "-t hub --strict --deadline 9s query -- --strict", args: []string{"--strict"}},
		{line: "query -t gpu-1:4222 --strict --deadline 9s SELECT", args: []string{"SELECT"}},
		{line: "gpu-1:4222 --token-file f --strict --deadline 9s web --token-file g", token: "f"},
	} {
		q, a := asked(t, c.line)
		if q == nil || !a.Hub.Strict || a.Hub.Wait.Seconds() != 9 || a.Hub.Token != c.token ||
			!slices.Equal(q.args, c.args) {
			t.Errorf("%s: %+v, %+v", c.line, q, a.Hub)
		}
	}
	for _, line := range []string{"hub status", "hub --listen x leak", "list", "--strict list", "leak --live"} {
		if q, _ := asked(t, line); q != nil {
			t.Errorf("%s asks many machines", line)
		}
	}
}

// TestTitleIsOneLine: names that nodes choose forge no line of another's answer, and an answer keeps its own lines.
func TestTitleIsOneLine(t *testing.T) {
	a := &answered{Session: fanout.Session{Node: "n", Job: "j", About: api.About{Name: "x\nnode m, job j\x1b[31m"}}}
	if got := title([]*answered{a}); got != `node n, job j, session x\nnode m, job j\x1b[31m` {
		t.Error(got)
	}
	var out bytes.Buffer
	q := &question{App: &app.App{Stderr: io.Discard}}
	q.ownVerdicts(&out, []*judged{{Session: a.Session, report: detect.Report{Verdict: detect.Undecided}}})
	if text := out.String(); strings.Contains(text, `undecided\n`) || !strings.Contains(text, "\nundecided") {
		t.Error(text)
	}
}
