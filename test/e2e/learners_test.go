package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// Trainings without PyTorch, with the real libraries: each counts its own kind of step, what leaks is called a leak
// with its holder, and what doesn't is not. A forest that is being grown is no leak.
func TestLearners(t *testing.T) {
	env.Long(t, "frameworks: runs that a verdict needs")
	t.Parallel()
	python := env.Learners(t).Path
	for _, c := range []struct {
		name, kind string
		steps      int
		counts     int    // steps that must be seen; 0: none, and seconds are judged
		by         string // what is said to count
		verdict    string
	}{
		{"plain", "leaky", 800, 800, "calls of memgauge.step()", "leak"},
		{"plain", "sound", 800, 800, "calls of memgauge.step()", "not leak"},
		{"clock", "leaky", 30, 0, "", "leak by time"},
		{"jax", "leaky", 10000, 10000, "calls of train_step, compiled by JAX", "leak"},
		{"jax", "sound", 2000, 2000, "calls of train_step, compiled by JAX", "not leak"},
		{"keras", "leaky", 6000, 6000, "batches of Keras", "leak"},
		{"xgboost", "sound", 2500, 2500, "boosting rounds of XGBoost", "by design"},
		{"xgboost", "leaky", 1500, 1500, "boosting rounds of XGBoost", "leak"},
		{"lightgbm", "sound", 1500, 1500, "boosting rounds of LightGBM", "not leak"},
	} {
		t.Run(c.name+" "+c.kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := filepath.Join(w.home, "s")
			if r := w.do("memgauge", "run", "--quiet", "--session", s, "--", python, script(t, "learners.py"), c.name,
				strconv.Itoa(c.steps), c.kind); r.code != 0 {
				t.Fatalf("exit %d\n%s", r.code, r.stderr)
			}
			rows := w.mg("query", "--session", s, "-f", "csv",
				"SELECT coalesce(sum(steps), 0), coalesce(max(step), 0) FROM python.steps")
			if want := fmt.Sprintf("\n%d,%d", c.counts, c.counts); !strings.Contains(rows, want) {
				t.Errorf("steps %q, want %d", rows, c.counts)
			}
			told := w.mg("query", "--session", s, "-f", "csv",
				"SELECT name, text FROM memgauge.events WHERE name IN ('steps', 'error')")
			if !strings.Contains(told, c.by) || strings.Contains(told, "error") {
				t.Errorf("events\n%s", told)
			}
			checkLearner(t, w, s, c.verdict)
		})
	}
}

func checkLearner(t *testing.T, w *world, session, verdict string) {
	t.Helper()
	r := w.do("memgauge", "leak", "--session", session, "--json")
	var doc struct {
		Verdict  string
		Findings []struct {
			Verdict, Holder, Reason string
			Evidence                []string
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		t.Fatalf("%v\n%s%s", err, r.stdout, r.stderr)
	}
	switch {
	case verdict == "leak by time": // a census is taken once it is called a leak, and then there are seconds left
		if doc.Verdict != "leak" || r.code != 3 || !strings.Contains(r.stdout, `"by_time": true`) {
			t.Errorf("called %s, exit %d\n%s", doc.Verdict, r.code, r.stdout)
		}
	case verdict == "leak":
		if doc.Verdict != "leak" || r.code != 3 || !strings.Contains(doc.Findings[0].Holder, "kept") {
			t.Errorf("called %s, exit %d\n%s", doc.Verdict, r.code, r.stdout)
		}
	case doc.Verdict == "leak" || r.code != 0:
		t.Errorf("called %s, exit %d\n%s", doc.Verdict, r.code, r.stdout)
	case verdict == "by design":
		if !strings.Contains(r.stdout, "the model itself grows by design") {
			t.Errorf("no word of the model\n%s", r.stdout)
		}
	}
}

// What JAX says of its own memory opens in memgauge snapshot, with the program's lines.
func TestJAXProfile(t *testing.T) {
	t.Parallel()
	python := env.Learners(t).Path
	w := newWorld(t)
	file := filepath.Join(w.home, "memory.pprof")
	if r := w.do(python, script(t, "jaxprofile.py"), file); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	text := w.mg("snapshot", file)
	for _, want := range []string{"cpu:0: 11 MiB in 11 live buffers", "jaxprofile.py:11 ", "10 buffers",
		"jaxprofile.py:15 other, 1 buffer"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
