package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// leakDoc is what these tests read of leak --json.
type leakDoc struct {
	Verdict  string  `json:"verdict"`
	Missing  *string `json:"missing"`
	Findings []struct {
		Verdict   string   `json:"verdict"`
		Memory    string   `json:"memory"`
		Device    *string  `json:"device"`
		Rate      *float64 `json:"rate_mb_per_step"`
		PerSecond *float64 `json:"rate_mb_per_second"`
		Unit      string   `json:"unit"`
		Limit     *string  `json:"limit"`
		LimitStep *int64   `json:"limit_step"`
		LimitMet  bool     `json:"limit_met"`
		Ended     bool     `json:"ended"`
		Seconds   *float64 `json:"time_to_limit_seconds"`
	} `json:"findings"`
}

func (w *world) leak(session string, args ...string) (doc leakDoc) {
	w.t.Helper()
	r := w.do("memgauge", append([]string{"leak", "--session", session, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		w.t.Fatalf("exit %d: %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	return doc
}

// cudaTraining has PyTorch's CUDA counters replaced by a fake of two devices: the second holds little and leaks 1 MiB a
// step, the host leaks 512 KiB a step, the first holds most and nothing leaks there.
const cudaTraining = `
import sys, time
sys.path.insert(0, %q)
import torch
from fakecuda import FakeCuda
from memgauge._agent.observe import observer
observer.uninstall(); fake = FakeCuda(torch); observer.install(torch)
torch.set_num_threads(1)
fake.allocate(8 << 30, 0)
m = torch.nn.Linear(64, 64); o = torch.optim.SGD(m.parameters(), .01)
kept = []
for i in range(500):
    fake.device = i & 1
    loss = m(torch.ones(8, 64)).sum(); o.zero_grad(); loss.backward(); o.step()
    kept.append(torch.ones(131072)); fake.allocate(1 << 20, 1)
    time.sleep(.008)
`

// TestHostLeakOfACUDATraining: devices have series of their own, and hide neither each other's leaks nor the host's.
func TestHostLeakOfACUDATraining(t *testing.T) {
	env.Long(t, "a training whose verdict needs readings")
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	agent, err := filepath.Abs("../agent")
	if err != nil {
		t.Fatal(err)
	}
	program := w.file("train.py", fmt.Sprintf(cudaTraining, agent))
	// At the usual budget a training of such cheap steps may have its last reading of the devices 100 to 200 before its
	// end.
	if r := w.do("memgauge", "run", "--budget", "10%", "--session", s, "--", env.Torch(t).Path, program); r.code != 0 {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if n := w.number(s, "SELECT count(DISTINCT device) FROM python.step_devices WHERE step > 400"); n != 2 {
		t.Errorf("%v devices, want 2", n)
	}
	if n := w.number(s, "SELECT sum(steps) FROM python.steps"); n != 500 {
		t.Errorf("%v steps, want 500", n)
	}
	doc, want := w.leak(s), map[string]float64{"host": 0.5, "cuda:1": 1}
	for _, f := range doc.Findings {
		name := "host"
		if f.Device != nil {
			name = *f.Device
		}
		if f.Verdict != "leak" {
			continue
		}
		if rate := want[name]; f.Rate == nil || math.Abs(*f.Rate-rate) > 0.05*rate+0.001 {
			t.Errorf("%s leaks %v MiB a step, want %v", name, f.Rate, rate)
		}
		delete(want, name)
	}
	if len(want) > 0 || doc.Verdict != "leak" {
		t.Errorf("%s; not found: %v in %+v", doc.Verdict, want, doc.Findings)
	}
}

// TestLeakOfAKilledTraining: what the kernel killed for its leak is judged as of its last step, also where asked for a
// step before.
func TestLeakOfAKilledTraining(t *testing.T) {
	env.Long(t, "a life that ends at a limit, in real time")
	t.Parallel()
	const limit = 900 << 20
	python := env.Torch(t).Path
	group := memoryCgroup(t, limit)
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	program := w.file("kept.py", `
import time, torch
torch.set_num_threads(1)
m = torch.nn.Linear(64, 64); o = torch.optim.SGD(m.parameters(), .01)
kept = []
while True:
    loss = m(torch.ones(8, 64)).sum(); o.zero_grad(); loss.backward(); o.step()
    kept.append(torch.ones(131072)); time.sleep(.01)
`)
	args := inCgroup(group, "memgauge", "run", "--session", s, "--", python, program)
	r := w.do(args[0], args[1:]...)
	if r.code != 137 {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	last := w.number(s, "SELECT max(step) FROM python.steps")
	f := w.leak(s).Findings[0]
	if f.Verdict != "leak" || !f.LimitMet || !f.Ended || f.Seconds != nil || f.Limit == nil ||
		*f.Limit != "cgroup 900 MiB" || f.LimitStep == nil || float64(*f.LimitStep) != last {
		t.Errorf("killed at step %v: %+v", last, f)
	}
	f = w.leak(s, "--until", fmt.Sprint(int(last*0.7))).Findings[0]
	if f.LimitMet || f.Ended || f.LimitStep == nil || math.Abs(float64(*f.LimitStep)/last-1) > 0.15 {
		t.Errorf("as of 0.7 of its life, killed at step %v: %+v", last, f)
	}
}

// TestLeakWithoutSteps: a program without PyTorch is judged by time.
func TestLeakWithoutSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	program := w.file("service.py", `
import sys, time
kept, begin = [], time.time()
while time.time() - begin < 28:
    while sys.argv[1] == "leak" and len(kept) < 10 * (time.time() - begin):
        kept.append(b"x" * (1 << 19))
    time.sleep(.05)
`)
	python := env.CPythons(t)[0].Path
	runs := map[string]*background{}
	for _, what := range []string{"leak", "healthy"} {
		runs[what] = w.start("memgauge", "run", "--session", filepath.Join(w.home, what), "--", python, program, what)
	}
	for what, run := range runs {
		if code := run.wait(t); code != 0 {
			t.Fatalf("%s: exit %d", what, code)
		}
		doc := w.leak(filepath.Join(w.home, what))
		if doc.Verdict != what || len(doc.Findings) == 0 || doc.Findings[0].Unit != "second" ||
			doc.Findings[0].Rate != nil {
			t.Errorf("%s: %+v; missing %s", what, doc, *cmp.Or(doc.Missing, new(string)))
			continue
		}
		if f := doc.Findings[0]; what == "leak" && (f.PerSecond == nil || math.Abs(*f.PerSecond/5-1) > 0.05) {
			t.Errorf("%+v, want 5 MiB a second", f)
		}
	}
}
