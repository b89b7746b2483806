package watch

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

func of(node string) source.Member {
	return source.Member{Session: fanout.Session{Node: node, Job: "j"}}
}

// TestGarbageOfANode: a node whose answer can't be read is one that failed; the others are judged.
func TestGarbageOfANode(t *testing.T) {
	good := `{"rank":0,"last":2,"steps":"1 2","held":"10 10","began":1,"ms":"1 2"}`
	for _, bad := range []string{"garbage", `{"rank":-7}`, good + "{"} {
		jobs := compareJobs([]session{
			{Member: of("n1"), Value: source.Judged{Held: []byte(good),
				Report: detect.Report{Verdict: detect.Healthy}}},
			{Member: of("evil"), Value: source.Judged{Held: []byte(bad)}}})
		if len(jobs) != 1 || len(jobs[0].Failed) != 1 || jobs[0].Failed[0] != "evil" || len(jobs[0].Each) != 1 ||
			jobs[0].Skew.Ranks != 1 {
			t.Errorf("%s: %+v", bad, jobs)
		}
	}
}

// TestTitleIsOneLine: names that nodes choose forge no line of another's answer, and an answer keeps its own
// lines.
func TestTitleIsOneLine(t *testing.T) {
	s := session{Member: of("n"), Value: source.Judged{Report: detect.Report{Verdict: detect.Undecided}}}
	s.Session.About = api.About{Name: "x\nnode m, job j\x1b[31m"}
	var out bytes.Buffer
	ownVerdicts(&out, io.Discard, []session{s})
	text := out.String()
	if strings.Contains(text, `undecided\n`) || !strings.Contains(text, "\nundecided") ||
		!strings.HasPrefix(text, `node n, job j, session x\nnode m, job j\x1b[31m`+"\n") {
		t.Error(text)
	}
}
