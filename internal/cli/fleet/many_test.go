package fleet

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// TestAsksOne: a command whose answers can't be put together is asked of the one session that there is, and refused
// where there are several.
func TestAsksOne(t *testing.T) {
	for _, c := range []struct {
		args []string
		one  bool
	}{
		{[]string{"eval", "len(x)"}, true}, {[]string{"eval", "--all", "len(x)"}, false}, {[]string{"report"}, true},
		{[]string{"report", "--json"}, false}, {[]string{"snapshot"}, true}, {[]string{"leak"}, false},
		{[]string{"tables", "python.steps"}, false},
	} {
		if q := (&question{args: c.args}); q.asksOne() != c.one {
			t.Errorf("%q: %v", c.args, !c.one)
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
