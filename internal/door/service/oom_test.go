package service

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

// level is a host whose memory was the same at each reading of two minutes.
type level struct{ now time.Time }

func (level) Devices(context.Context) ([]monitor.Device, error) {
	return []monitor.Device{{ID: monitor.Host, Name: "host"}}, nil
}

func (l level) Read(_ context.Context, into []monitor.Reading) ([]monitor.Reading, error) {
	for s := range 120 {
		into = append(into, monitor.Reading{Device: monitor.Host, Time: l.now.Add(time.Duration(s-119) * time.Second),
			Used: 4 << 30, Peak: 4 << 30, Reserved: 4 << 30, Total: 16 << 30, Kind: "host"})
	}
	return into, nil
}

func (level) Blocks(context.Context, string) ([]monitor.Allocator, string, error) {
	return nil, "", nil
}
func (level) Ended() bool { return false }

// What the judging of leaks foretells, oom foretells too: one memory has one end, by the newest judgement and from its
// moment on. A leak with no limit in sight, a verdict that was taken back and a job that is over change nothing.
func TestOOMKnowsWhatLeaks(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	leak := func(number int64, seconds float64) model.Finding {
		return model.Finding{Time: now.Add(-time.Minute).UnixMicro(), Judgement: number, Run: "leak", Verdict: "leak",
			Memory: "host heap", PID: 7, Rank: -1, Seconds: model.Seconds(seconds),
			Soonest: model.Seconds(seconds - 60), Latest: model.Seconds(seconds + 60), Advice: "bound the list"}
	}
	healthy := leak(3, 600)
	healthy.Run, healthy.Verdict = "healthy", "healthy"
	for name, x := range map[string]struct {
		findings []model.Finding
		over     bool
		seconds  float64
		verdict  string
	}{
		"none":         {verdict: "fine"},
		"a leak":       {findings: []model.Finding{leak(1, 90), leak(2, 660)}, seconds: 600, verdict: "watch"},
		"without end":  {findings: []model.Finding{leak(1, math.NaN())}, verdict: "fine"},
		"taken back":   {findings: []model.Finding{leak(2, 660), healthy}, verdict: "fine"},
		"over already": {findings: []model.Finding{leak(2, 660)}, over: true, verdict: "fine"},
	} {
		db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "s.duckdb"), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Append(t.Context(), &model.Batch{Findings: x.findings}); err != nil {
			t.Fatal(err)
		}
		w, err := monitor.New(t.Context(), level{now}, monitor.Options{Job: monitor.Job{Known: true, Over: x.over},
			OOM: monitor.OOMOptions{Threshold: 80, Critical: 95, Window: time.Minute}})
		if err == nil {
			_, err = w.Tick(t.Context())
		}
		if err == nil {
			err = (&Service{Open: Opened(db)}).foretell(t.Context(), w)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := w.Report(monitor.What{Tool: "oom", Now: now})
		risk := r.Devices[monitor.Host].Risk
		if got := risk.Seconds; r.Verdict != x.verdict || (got == nil) != (x.seconds == 0) ||
			got != nil && math.Abs(float64(*got)-x.seconds) > 1 {
			t.Errorf("%s: %s, %v s, not %s, %g: %+v", name, r.Verdict, got, x.verdict, x.seconds, risk)
		}
		if x.seconds > 0 && risk.Advice != "bound the list" {
			t.Errorf("%s: the advice is %q", name, risk.Advice)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
