package fleet

import (
	"testing"

	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// TestGarbageOfANode: a node whose answer can't be read is one that failed; the others are judged.
func TestGarbageOfANode(t *testing.T) {
	good := `{"rank":0,"last":2,"steps":"1 2","held":"10 10","began":1,"ms":"1 2"}`
	for _, bad := range []string{"garbage", `{"rank":-7}`, good + "{"} {
		jobs := compareJobs([]*judged{
			{Session: fanout.Session{Node: "n1", Job: "j"}, held: []byte(good),
				report: detect.Report{Verdict: detect.Healthy}},
			{Session: fanout.Session{Node: "evil", Job: "j"}, held: []byte(bad)}})
		if len(jobs) != 1 || len(jobs[0].Failed) != 1 || jobs[0].Failed[0] != "evil" || len(jobs[0].Each) != 1 ||
			jobs[0].Skew.Ranks != 1 {
			t.Errorf("%s: %+v", bad, jobs)
		}
	}
}
