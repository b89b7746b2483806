package metrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) { env.Leftovers(m) }

// TestDocumented: the table in docs/export.md is the list, and names are what OpenMetrics wants.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(env.Checkout(), "docs", "export.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	names := map[string]bool{}
	for _, m := range All {
		labels := strings.Join(m.Labels, ", ")
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", m.Prom(), m.Kind, labels, m.Help)
		if !regexp.MustCompile(`^memgauge(_[a-z]+)+$`).MatchString(m.Prom()) || names[m.Prom()] || names[m.OTel()] {
			t.Errorf("a bad name, or one twice: %s, %s", m.Prom(), m.OTel())
		}
		names[m.Prom()], names[m.OTel()] = true, true
	}
	if !strings.Contains(string(doc), want.String()) {
		t.Errorf("docs/export.md lacks this table:\n%s", want.String())
	}
}

// tables is a session with rows and no processes.
type tables struct {
	*service.Service
	live   bool
	leaks  []detect.Finding
	judged int
	broken bool
}

func (s *tables) About(context.Context) (api.About, error) { return api.About{Name: "s", ID: "1"}, nil }
func (s *tables) End(context.Context) (api.End, error)     { return api.End{Live: s.live}, nil }

func (s *tables) OOM(context.Context, api.OOMRequest) (*monitor.Report, error) {
	if s.broken {
		s.broken = false
		return nil, fmt.Errorf("ask: %w", api.ErrBroken)
	}
	return &monitor.Report{}, nil
}

func (s *tables) Summary(context.Context) (api.Summary, error) { return api.Summary{Lost: 3}, nil }

func (s *tables) Leak(context.Context, api.LeakRequest) (detect.Report, error) {
	s.judged++
	return detect.Report{Verdict: detect.Leak, Findings: s.leaks}, nil
}

func open(t *testing.T, b *model.Batch) *tables {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "s.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return &tables{Service: &service.Service{Open: service.Opened(db)}, live: true}
}

// value is that of a series; false if there is none.
func (r Reading) value(m *Metric, labels ...string) (float64, bool) {
	for _, s := range r.Samples {
		if s.Metric == m && strings.Join(s.Values, "|") == strings.Join(labels, "|") {
			return s.Value, true
		}
	}
	return 0, false
}

// TestLabelsAreBounded: workers of one rank are one series, and ranks beyond the bound another; steps are told of the
// trainer that lives.
func TestLabelsAreBounded(t *testing.T) {
	const now = 1_800_000_000_000_000
	var b model.Batch
	add := func(pid, rank int32, role string, at int64, anon int64) {
		b.Samples.Tree = append(b.Samples.Tree, model.TreeProcess{PID: pid, Rank: rank, Role: role})
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{PID: pid, Rank: rank, Time: at, Anon: anon,
			RSS: anon, HeapInUse: model.Null, HeapHeld: model.Null, PSS: model.Null})
	}
	for rank := range int32(maxRanks + 10) {
		add(1000+rank, rank, "trainer", now, 100)
	}
	for i := range int32(7) {
		add(5000+i, 0, "worker", now, 10)
	}
	add(9000, 0, "worker", now-60_000_000, 5) // it has ended a minute ago
	step := func(pid, rank int32, step, allocated int64) {
		b.Steps = append(b.Steps, model.Step{Time: now + step, PID: pid, Rank: rank, Step: step, Steps: 1, Device: -1,
			DurationNS: 2e9, Allocated: allocated, MaxAllocated: allocated, Reserved: model.Null,
			MaxReserved: model.Null})
		b.Processes = append(b.Processes, model.Process{PID: pid, Rank: rank, Ended: model.Null})
	}
	step(1000, 0, 1, 500)
	step(1000, 0, 2, model.Null)
	step(1001, 1, 7, 600)
	s := open(t, &b)
	s.leaks = []detect.Finding{
		{Growth: detect.Growth{Verdict: detect.Leak, Rate: 4096}, Memory: detect.Worker, Rank: 0, Seconds: 100},
		{Growth: detect.Growth{Verdict: detect.Leak, Rate: 4096}, Memory: detect.Worker, Rank: 0, Seconds: 50},
		{Growth: detect.Growth{Verdict: detect.Healthy}, Memory: detect.Device, Rank: 1}}
	r, err := Read(t.Context(), s, s.leak)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		value  float64
		metric *Metric
		labels []string
	}{
		{70, processMemory, []string{"0", "worker", "anon"}}, {7, processes, []string{"0", "worker"}},
		{1000, processMemory, []string{"other", "trainer", "anon"}}, {10, folded, nil},
		{500, stepMemory, []string{"0", "cpu", "allocated"}}, {2, steps, []string{"0"}}, {7, steps, []string{"1"}},
		{2, stepDuration, []string{"0"}}, {1, verdict, []string{"leak"}}, {0, verdict, []string{"healthy"}},
		{8192, leakPerStep, []string{"0", string(detect.Worker), "", ""}},
		{50, leakTime, []string{"0", string(detect.Worker), "", ""}}, {3, lost, nil},
	} {
		if got, ok := r.value(want.metric, want.labels...); !ok || got != want.value {
			t.Errorf("%s%v: %g, %v; want %g", want.metric.Prom(), want.labels, got, ok, want.value)
		}
	}
	if _, ok := r.value(stepMemory, "0", "cpu", "reserved"); ok {
		t.Error("what is not known is told")
	}
}

func (s *tables) leak(ctx context.Context, from api.Session) (detect.Report, error) {
	return from.Leak(ctx, api.LeakRequest{})
}

// TestSource: a session that failed is opened anew by the next reading; a session is judged now and then; what has
// ended is asked no more.
func TestSource(t *testing.T) {
	s := open(t, &model.Batch{})
	connected := 0
	source := NewSource(func(context.Context) (api.Session, error) {
		if connected++; connected > 2 {
			return nil, errors.New("asked too often")
		}
		return s, nil
	})
	defer source.Close()
	read := func() Reading {
		t.Helper()
		source.at = time.Time{} // a second later
		r, err := source.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	read()
	s.broken, source.at = true, time.Time{}
	if r, err := source.Read(t.Context()); err == nil {
		t.Errorf("a session that fails: %+v", r)
	}
	read()
	if connected != 2 || s.judged != 1 {
		t.Errorf("connected %d times, judged %d times", connected, s.judged)
	}
	s.live = false
	if r := read(); r.Live || s.judged != 2 {
		t.Errorf("at the end: live %v, judged %d times", r.Live, s.judged)
	}
	if err := source.UntilEnd(t.Context()); err != nil || read().Live || connected != 2 {
		t.Errorf("afterwards: %v, connected %d times", err, connected)
	}
}
