package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// The code and the run say the same: check puts what a session measured beside its finding, before those about which
// nothing was measured, and leak names the rule.
func TestCheckAndLeakMeet(t *testing.T) {
	env.Long(t, "trainings of the corpus to their end")
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	s, dir := filepath.Join(w.home, "s"), filepath.Join(w.home, "code")
	file, other := filepath.Join(dir, "train.py"), filepath.Join(dir, "another.py")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(env.Checkout(), "examples", "outputs.py"))
	if err != nil {
		t.Fatal(err)
	}
	leaking := string(source)
	old := time.Now().Add(-time.Hour) // a file that changes after the run began explains nothing
	for path, text := range map[string]string{file: leaking,
		other: strings.Replace(leaking, "step_outputs", "held", -1)} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if r := w.do("memgauge", "run", "--quiet", "--session", s, "--", python, file, "6"); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	checkMeasured(t, w, s, dir)
	leakNamesRule(t, w, s, file)
	// an edited file explains nothing any more: its lines may be others
	if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if r := w.do("memgauge", "leak", "--session", s); strings.Contains(r.stdout, "MG105") {
		t.Errorf("a file that was changed after the run explains it:\n%s", r.stdout)
	}
}

func checkMeasured(t *testing.T, w *world, s, dir string) {
	t.Helper()
	r := w.do("memgauge", "check", "--session", s, "--format", "json", dir)
	var doc struct {
		Findings []struct {
			Rule, Path string
			Line       int
			Measured   *struct {
				Bytes   int64   `json:"bytes"`
				PerStep float64 `json:"bytes_per_step"`
				Holder  string
			}
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil || r.code != 3 || len(doc.Findings) != 2 {
		t.Fatalf("exit %d, %v, want two findings\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	first, second := doc.Findings[0], doc.Findings[1]
	if !strings.HasSuffix(first.Path, "train.py") || first.Rule != "MG105" || first.Line != 28 ||
		first.Measured == nil ||
		first.Measured.PerStep < 100<<10 || first.Measured.Bytes < 50<<20 || !strings.Contains(first.Measured.Holder,
		"step_outputs") {
		t.Errorf("the first finding is not what was measured:\n%s", r.stdout)
	}
	if second.Measured != nil {
		t.Errorf("a file that never ran has a measure:\n%s", r.stdout)
	}
	if text := w.do("memgauge", "check", "--session", s, dir).stdout; !strings.Contains(text,
		"measured: this line holds ") ||
		!strings.Contains(text, " a step since step ") {
		t.Errorf("the text says nothing of the measure:\n%s", text)
	}
}

func leakNamesRule(t *testing.T, w *world, s, file string) {
	t.Helper()
	text := w.do("memgauge", "leak", "--session", s).stdout
	for _, want := range []string{"rule      MG105 outputs-kept-by-object at ", "train.py:28: "} {
		if !strings.Contains(text, want) {
			t.Errorf("leak doesn't say %q:\n%s", want, text)
		}
	}
	var doc struct {
		Findings []struct {
			Rule *struct {
				ID   string
				Line int
			}
		}
	}
	out := w.do("memgauge", "leak", "--session", s, "--json").stdout
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Findings) == 0 || doc.Findings[0].Rule == nil ||
		doc.Findings[0].Rule.ID != "MG105" || doc.Findings[0].Rule.Line != 28 {
		t.Errorf("%v: the JSON names no rule for %s:\n%s", err, file, out)
	}
}

// Where the line of a leak matches a rule that has a safe fix, leak shows it as a diff, in the text and in the JSON.
func TestLeakShowsTheFix(t *testing.T) {
	env.Long(t, "trainings whose verdict needs readings")
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	file, s := filepath.Join(w.home, "train.py"), filepath.Join(w.home, "s")
	if err := os.WriteFile(file, []byte(lossesKept), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := w.do("memgauge", "run", "--quiet", "--session", s, "--", python, "train.py"); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	text := w.do("memgauge", "leak", "--session", s)
	for _, want := range []string{"rule      MG103 graph-kept-in-container at train.py:15: ",
		"            -    losses.append(validation_loss)\n            +    losses.append(validation_loss.detach())\n"} {
		if text.code != 3 || !strings.Contains(text.stdout, want) {
			t.Errorf("exit %d, it lacks %q\n%s", text.code, want, text.stdout)
		}
	}
	var doc struct {
		Findings []struct{ Rule *struct{ ID, Diff string } }
	}
	out := w.do("memgauge", "leak", "--session", s, "--json").stdout
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Findings) == 0 || doc.Findings[0].Rule == nil ||
		!strings.Contains(doc.Findings[0].Rule.Diff, "+    losses.append(validation_loss.detach())\n") {
		t.Errorf("%v: the JSON has no diff:\n%s", err, out)
	}
	w.mg("check", "--fix", file)
	if fixed, err := os.ReadFile(file); err != nil ||
		!strings.Contains(string(fixed), "append(validation_loss.detach())") {
		t.Errorf("%v\n%s", err, fixed)
	}
}

// lossesKept keeps the graph of every step.
const lossesKept = `import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 512), nn.Sigmoid(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
held_out = torch.randn(64, 32)
losses = []
for step in range(1200):
    loss = model(torch.randn(128, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    validation_loss = model(held_out).square().mean()
    losses.append(validation_loss)
`
