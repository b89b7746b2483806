package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

const estimated = `
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
batch = parser.parse_args().batch_size
model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    loss = model(torch.randn(batch, 1024, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("a word of the script's own", loss.item())
`

// A script that never ends and wants a GPU is estimated on a machine without one; nothing but the answer is printed.
func TestEstimate(t *testing.T) {
	env.Long(t, "three trainings; internal/judge/estimate records one")
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	file := filepath.Join(w.home, "train.py")
	if err := os.WriteFile(file, []byte(estimated), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.do("memgauge", "estimate", "--json", "--shapes", "--device-memory", "2GiB", "--precision",
		"as-is,bf16", "--",
		python, "-u", file, "--batch-size", "64")
	if r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	var doc struct {
		Steps, Batch int
		Scales       bool
		Estimates    []struct {
			Fits      string
			Largest   int `json:"largest_batch"`
			Requested int `json:"peak_requested_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	if doc.Steps != 3 || doc.Batch != 64 || !doc.Scales || len(doc.Estimates) != 2 || doc.Estimates[0].Fits != "yes" {
		t.Fatalf("answer %+v", doc)
	}
	one, half := doc.Estimates[0], doc.Estimates[1]
	if least := 8 * 1025 * 1024 * 4 * 4; one.Requested < least || half.Requested > one.Requested*6/10 ||
		half.Largest <= one.Largest || one.Largest < 64 {
		t.Errorf("as it is %+v, in 16 bits %+v; parameters, gradients and Adam's state are %d bytes", one, half, least)
	}
	r = w.do("memgauge", "estimate", "--once", "--shapes", "--device-memory", "400MiB", "--precision", "as-is", python,
		file, "--batch-size", "64")
	if r.code != 3 || !strings.Contains(r.stdout, "| no ") {
		t.Errorf("a device that is too small: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func TestEstimateRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{{}, {"python3"}, {"train"}, {"--device-memory", "GTX 99", "train.py"},
		{"--precision", "int4", "train.py"}, {"--steps", "0", "train.py"}, {"--batch", "0", "train.py"},
		{"--conf", "nonsense", "train.py"}, {"--session", "s", "train.py"}, {"--session", "s", "--batch", "4"},
		{"--session", "s", "--device-memory", "much"}} {
		r := w.do("memgauge", append([]string{"estimate"}, args...)...)
		if r.code != 2 || r.stdout != "" || !strings.HasPrefix(r.stderr, "memgauge: estimate: ") {
			t.Errorf("%q: exit %d, %q, %q", args, r.code, r.stdout, r.stderr)
		}
	}
}

// The machine's advice, its file, and a session's whose heap keeps what it does not use.
func TestAdvise(t *testing.T) {
	env.Long(t, "replays of a training's whole trace under each setting")
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	safe := filepath.Join(w.home, "safe_training.yaml")
	if r := w.do("memgauge", "advise", "-o", safe); r.code != 0 || !strings.Contains(r.stdout, "num_workers") {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if text, err := os.ReadFile(safe); err != nil || !strings.Contains(string(text), "accumulate_grad_batches: ") {
		t.Errorf("%v\n%s", err, text)
	}
	file, s := filepath.Join(w.home, "holes.py"), filepath.Join(w.home, "s")
	if err := os.WriteFile(file, []byte(holes), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.do("memgauge", "run", "--quiet", "--session", s, "--", python, file); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	r := w.do("memgauge", "advise", "--session", s, "--json")
	var doc struct {
		Steps  int
		Advice []struct {
			Setting, Known string
			Saves          int64 `json:"saves_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil || r.code != 0 {
		t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	if doc.Steps != 3000 || len(doc.Advice) != 1 || doc.Advice[0].Setting != "malloc" ||
		doc.Advice[0].Saves < 400<<20 || doc.Advice[0].Saves > 600<<20 {
		t.Errorf("the heap keeps 460 MiB: %+v", doc)
	}
	w.estimateOf(s)
}

// A session on the host says what is there whatever the device is, and what it can't know; one without a training is
// refused.
func (w *world) estimateOf(s string) {
	w.t.Helper()
	var doc struct {
		On     string `json:"trained_on"`
		Steps  int
		Fits   *string
		Device *struct{}
		Parts  []struct {
			What  string
			Bytes int64
		} `json:"filled_by"`
		Unknown []string `json:"not_known"`
	}
	out := w.mg("estimate", "--session", s, "--device-memory", "GTX 1650", "--json")
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	if doc.On != "cpu" || doc.Steps != 3000 || doc.Fits != nil || doc.Device != nil || len(doc.Unknown) != 2 ||
		len(doc.Parts) != 3 || doc.Parts[0].What != "parameters" || doc.Parts[0].Bytes != 4*(64*64+64+64+1) ||
		doc.Parts[1].What != "optimizer state" || doc.Parts[1].Bytes < 2*doc.Parts[0].Bytes {
		w.t.Errorf("of a session on the host:\n%s", out)
	}
	if r := w.do("memgauge", "estimate", "--session", s, "--device-memory", "200MiB"); r.code != 3 ||
		!strings.Contains(r.stdout, "it does not fit") {
		w.t.Errorf("less than CUDA's context: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	none := filepath.Join(w.home, "none")
	w.mg("run", "--quiet", "--session", none, "--", "true")
	if r := w.do("memgauge", "estimate", "--session", none); r.code != 1 || r.stdout != "" ||
		!strings.Contains(r.stderr, "the session has 0 training steps") {
		w.t.Errorf("no training: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// holes frees 480 MB below a block in use.
const holes = `
import ctypes, torch
from torch import nn
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(ctypes.c_size_t(60000)) for _ in range(8000)]
for b in blocks:
    ctypes.memset(b, 1, 60000)
for b in blocks[:-1]:
    libc.free(b)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters())
for step in range(3000):
    loss = model(torch.randn(256, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
`
