package page

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/recorded"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

const (
	mib    = 1 << 20
	gib    = 1 << 30
	second = 1_000_000 // µs
	ranOut = 1_000 * second
)

// gathered is the page of a session with these rows.
func gathered(t *testing.T, b *model.Batch) *Document {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "s.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	tables := &service.Service{Open: service.Opened(db)}
	w, err := monitor.New(t.Context(), recorded.New(tables), monitor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := Gather(t.Context(), tables, Parts{Watch: w})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// window is the minute around ranOut of a process that grows by 10 MiB/s and is gone half a second before, and of its
// cgroup.
func window() (rows []model.WindowSample) {
	for at := int64(-60 * second); at <= 2*second; at += second / 10 {
		alive := at < -second/2
		held := int64(gib) + at*10*mib/second
		s := model.WindowSample{Time: ranOut + at, Event: ranOut, Scope: "process", PID: 7, Name: "python", Bytes: held}
		cg := model.WindowSample{Time: ranOut + at, Event: ranOut, Scope: "cgroup", Name: "/job", Bytes: held + 50*mib}
		if alive {
			rows = append(rows, s)
		} else {
			cg.Bytes = 20 * mib
		}
		rows = append(rows, cg)
	}
	return rows
}

func TestPostMortemOfAKill(t *testing.T) {
	d := gathered(t, &model.Batch{Samples: model.Samples{Window: window()},
		Events: []model.Event{{Time: ranOut, PID: 7, Rank: -1, Name: "oom_kill", Text: "cgroup /job reached its limit",
			A: gib, B: 1100 * mib}}})
	p := d.PostMortem
	if p == nil || p.Event != "oom_kill" || p.Limit == nil || *p.Limit != 1100*mib || p.Requested != nil ||
		p.LargestHole != nil {
		t.Fatalf("%+v", p)
	}
	if len(p.Grew) != 2 || p.Largest[0].Name != "/job" || p.Largest[0].Bytes != gib+44*mib || p.Largest[1].PID != 7 ||
		p.Largest[1].Grown != 594*mib {
		t.Errorf("grew %+v, largest %+v: what was given back after the kill counts", p.Grew, p.Largest)
	}
	if len(d.Minute) != 2 || d.Minute[0].Name != "7" || d.Minute[1].Name != "/job" || len(d.Minute[0].T) < 500 ||
		len(d.Minute[1].T) != len(d.Minute[1].Bytes) {
		t.Errorf("the minute: %+v", d.Minute)
	}
	if !strings.Contains(d.Headlines[0].Text, "Memory ran out: cgroup /job reached its limit.") {
		t.Errorf("headlines %+v", d.Headlines)
	}
}

// TestPeaksAreTold: the highest memory that belongs to saving stands in the report, with its line and what avoids it.
func TestPeaksAreTold(t *testing.T) {
	steps := []model.Step{}
	for i := range int64(20) {
		steps = append(steps, model.Step{Time: (900 + i) * second, PID: 7, Rank: -1, Step: i + 1, Steps: 1, RSS: gib,
			MaxRSS: model.Null, Device: -1})
	}
	d := gathered(t, &model.Batch{Steps: steps, Events: []model.Event{{Time: 910 * second, PID: 7, Rank: -1,
		Name: "peak", Code: "saving", Text: "torch.save, train.py:40", A: 2 * gib, B: gib}}})
	if len(d.Peaks) != 1 || d.Peaks[0].Site != "train.py:40" || d.Peaks[0].Advice == "" {
		t.Fatalf("%+v", d.Peaks)
	}
	const want = "Peak: host memory reached 2 GiB in saving (torch.save, train.py:40), after step 11; 1 GiB otherwise"
	if !slices.ContainsFunc(d.Headlines, func(h Headline) bool { return strings.HasPrefix(h.Text, want) && !h.Bad }) {
		t.Errorf("headlines %+v", d.Headlines)
	}
}

func TestPostMortemOfAFailedAllocation(t *testing.T) {
	event := func(name string, at time.Duration, text string, a, b int64) model.Event {
		return model.Event{Time: ranOut + at.Microseconds(), PID: 7, Rank: 0, Name: name, Text: text, A: a, B: b}
	}
	gpu := model.Samples{Devices: []model.GPUDevice{{Time: second, Device: 3, UUID: "a", Name: "Fake",
		Total: 80 * gib}}, GPUs: []model.GPUUtilization{{Time: ranOut - second, Device: 3, Name: "Fake", Used: 79 * gib,
		Free: gib, Total: 80 * gib, State: "ok"}}}
	for name, c := range map[string]struct {
		events  []model.Event
		summary string
		hole    int64 // -1: not told
	}{
		"that ends the program": {[]model.Event{event("oom", 0, "OutOfMemoryError: no\nmore", 2*gib, 3),
			event("oom_hole", time.Millisecond, "", gib/2, 3)},
			"an allocation of 2 GiB failed on GPU 3 (largest hole 512 MiB): OutOfMemoryError: no", gib / 2},
		"that was caught": {[]model.Event{event("oom", 0, "went on", 0, 3)}, "an allocation failed on GPU 3: went on",
			-1},
		"after another's": {[]model.Event{event("oom_hole", -time.Minute, "", gib, 3), event("oom", 0, "went on", 0, 3),
			event("oom_hole", time.Second, "", gib, 2)},
			"an allocation failed on GPU 3: went on", -1},
	} {
		d := gathered(t, &model.Batch{Samples: gpu, Events: c.events})
		p := d.PostMortem
		if p == nil || p.Summary != c.summary || p.Device != "3" || p.Limit == nil || *p.Limit != 80*gib ||
			(p.LargestHole != nil) != (c.hole >= 0) {
			t.Errorf("%s: %+v", name, p)
		} else if p.LargestHole != nil && *p.LargestHole != c.hole {
			t.Errorf("%s: hole %d", name, *p.LargestHole)
		}
	}
	if d := gathered(t, &model.Batch{Events: []model.Event{{Time: ranOut, PID: 7, Name: "end",
		A: 0}}}); d.PostMortem != nil {
		t.Errorf("of a session whose memory sufficed: %+v", d.PostMortem)
	}
}
