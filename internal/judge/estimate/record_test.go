package estimate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const training = `
import torch
from torch import nn
BATCH = 32
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 256)).to(device)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(100):
    x, y = torch.randn(BATCH, 256).to(device), torch.randint(256, (BATCH,), device=device)
    assert x.device.type == "cuda" and x.is_cuda, x.device
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert loss.item() == loss.item()
`

// A real training: with and without arithmetic the same is allocated, and at another batch size the same operations.
func TestRecordsATraining(t *testing.T) {
	r := Run{Python: env.Torch(t).Path, Argv: []string{script(t, training)}, Steps: 2, Factor: 1,
		Capability: [2]int{8, 0}}
	real, err := Record(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Shapes = true
	shapes, err := Record(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if !real.mates(shapes) {
		t.Error("without arithmetic something else was allocated")
	}
	r.Factor = 2
	double, err := Record(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	p := NewProgram(real, double)
	if real.Batch != 32 || double.BatchRun != 64 || !p.Exact || real.Steps != 2 {
		t.Fatalf("batch %d and %d, the same: %t, %d steps", real.Batch, double.BatchRun, p.Exact, real.Steps)
	}
	res, err := p.Play(t.Context(), Variant{})
	if err != nil {
		t.Fatal(err)
	}
	parameters := int64(256*512+512+512*256+256) * 4
	if res.At[Parameter] != parameters || res.At[Gradient] != parameters || res.At[Optimizer] != 2*parameters {
		t.Errorf("at the peak %v, parameters have %d bytes", res.At, parameters)
	}
	if got := p.size(1, &Variant{Batch: 320}) - p.size(1, &Variant{}); got != 0 {
		t.Errorf("a parameter grows with the batch size: by %d bytes", got)
	}
}

// An H100 recorded this training (testdata/snapshots): what was in use to 0.1 %, what was reserved within 5 %.
func TestIsWhatAnH100Recorded(t *testing.T) {
	r := Run{Python: env.Torch(t).Path, Steps: 12, Factor: 1, Shapes: true, Capability: [2]int{9, 0},
		Argv: []string{filepath.Join(env.Checkout(), "test/estimate/programs/lengths.py")}}
	recording, err := Record(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	p := NewProgram(recording, nil)
	for _, c := range []struct {
		expandable bool
		reserved   int64
		within     float64
	}{{false, 4622123008, 0.05}, {true, 3613392896, 0.01}} {
		v := Variant{Workspace: 32 * mib}
		v.Options.ExpandableSegments = c.expandable
		res, err := p.Play(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "in use", res.PeakRequested, 3231897932, 0.001)
		near(t, "reserved", res.PeakReserved, c.reserved, c.within)
	}
}

func near(t *testing.T, what string, got, want int64, within float64) {
	t.Helper()
	if off := float64(got)/float64(want) - 1; off > within || off < -within {
		t.Errorf("%s: %d bytes, recorded were %d: %+.1f %%", what, got, want, 100*off)
	}
}

func TestAScriptThatFails(t *testing.T) {
	r := Run{Python: env.Torch(t).Path, Argv: []string{script(t, "raise ValueError('no data')")}, Steps: 1, Factor: 1}
	if _, err := Record(t.Context(), r); err == nil || !strings.Contains(err.Error(), "ValueError: no data") {
		t.Errorf("the script's error is not told: %v", err)
	}
}

func TestAScriptEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, stop := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, why)
	defer stop()
	r := Run{Python: env.Torch(t).Path, Argv: []string{script(t, "import time\ntime.sleep(3600)")}, Steps: 1, Factor: 1}
	if _, err := Record(ctx, r); !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
}

// TestFencedScript: with both fences a script changes no file and reaches no network, and has its temporary files.
func TestFencedScript(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const acts = `
import os, socket, sys, tempfile
tempfile.NamedTemporaryFile().write(b"x")
open(os.devnull, "w").write("x")
kept, port = %q, %d
tries = {"write": lambda: open(kept, "w"), "append": lambda: open(kept, "a"), "remove": lambda: os.remove(kept),
         "make": lambda: os.mkdir(kept + ".d"), "connect": lambda: socket.create_connection(("127.0.0.1", port))}
done = []
for name, act in tries.items():
    try:
        act()
    except OSError:
        continue
    done.append(name)
raise ValueError("done: %%s" %% done)
`
	text := fmt.Sprintf(acts, kept, l.Addr().(*net.TCPAddr).Port)
	r := Run{Python: env.Torch(t).Path, Argv: []string{script(t, text)}, Steps: 1, Factor: 1, NoNetwork: true,
		NoWrites: true}
	_, err = Record(t.Context(), r)
	said := fmt.Sprint(err)
	if strings.Contains(said, "can't be kept") || strings.Contains(said, "needs Landlock") {
		env.Missing(t, "unshare", err)
	}
	if err == nil || !strings.Contains(err.Error(), "ValueError: done: []") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "kept" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
