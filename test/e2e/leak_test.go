package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/test/env"
)

// The mistakes that leak memory, as the seeds' documents list them: each is called a leak with what holds it, and its
// repair is not. Trainings of some five seconds each; the short lane has the first mistake and the last.
func TestLeakPatterns(t *testing.T) {
	t.Parallel()
	python := env.Torch(t).Path
	for _, p := range env.Ends([]struct{ name, holder, class, line string }{
		{"losses", "all_losses", "autograd_graph", "patterns.py:"},
		{"intermediate", "features", "autograd_graph", "patterns.py:"},
		{"cycles", "", "gc_cycles", ""},
		{"outputs", "validation_step_outputs", "retained_tensors", "patterns.py:"},
		{"workers", "augmented", "worker_growth", "patterns.py:"},
		{"plots", "open", "retained_objects", ""},
	}) {
		for _, kind := range []string{"leaky", "fixed"} {
			t.Run(p.name+" "+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				s := filepath.Join(w.home, "s")
				if r := w.do("memgauge", "run", "--quiet", "--session", s, "--", python, script(t, "patterns.py"),
					p.name, kind); r.code != 0 {
					t.Fatalf("exit %d\n%s", r.code, r.stderr)
				}
				r := w.do("memgauge", "leak", "--session", s, "--json")
				var doc struct {
					Verdict  string
					Class    string
					Findings []struct{ Verdict, Holder, Site, Class string }
				}
				if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
					t.Fatalf("%v\n%s%s", err, r.stdout, r.stderr)
				}
				if kind == "fixed" {
					if doc.Verdict != "healthy" || r.code != 0 {
						t.Errorf("the repair is called %s, exit %d\n%s", doc.Verdict, r.code, r.stdout)
					}
					return
				}
				if doc.Verdict != "leak" || r.code != 3 {
					t.Fatalf("called %s, exit %d\n%s", doc.Verdict, r.code, r.stdout)
				}
				f := doc.Findings[0]
				if !strings.Contains(f.Holder, p.holder) || doc.Class != p.class || !strings.Contains(f.Site, p.line) {
					t.Errorf("class %s, holder %q, line %q; want %s, %s\n%s", doc.Class, f.Holder, f.Site, p.class,
						p.holder, r.stdout)
				}
			})
		}
	}
}

// The summary times the run that was judged, not the command that judges it; a device that the session has not is no
// healthy one.
func TestLeakOfAnEndedRunSaysWhatItJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	w.mg("run", "--quiet", "--session", s, "--", "python3", "-c", "import time; time.sleep(2)")
	var doc struct {
		Summary struct {
			Seconds float64   `json:"duration_seconds"`
			Start   time.Time `json:"start_time"`
			End     time.Time `json:"end_time"`
		} `json:"monitoring_summary"`
	}
	if err := json.Unmarshal([]byte(w.mg("leak", "--session", s, "--json")), &doc); err != nil {
		t.Fatal(err)
	}
	of, err := session.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	x := doc.Summary
	if x.Seconds < 2 || x.Seconds != x.End.Sub(x.Start).Seconds() || !x.Start.Equal(of.Meta.Started) {
		t.Errorf("%g s from %v to %v, of a run of 2 s that began at %v", x.Seconds, x.Start, x.End, of.Meta.Started)
	}
	if r := w.do("memgauge", "leak", "--session", s, "--devices", "99"); r.code != 1 || r.stdout != "" ||
		!strings.Contains(r.stderr, "no device 99") {
		t.Errorf("a device that is not there: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
