package estimate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
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
tied = nn.Linear(256, 512)
tied.weight = model[0].weight
tied.to(device).to("cuda:0")
assert tied.weight is model[0].weight and model[0].weight.to(device, non_blocking=True).is_cuda
there = model[0].bias.detach().to("cuda", torch.float32, True).to("cpu").to(torch.device("cpu"), non_blocking=True)
assert not there.is_cuda and not there.to("cpu", torch.float64).is_cuda and not there.to(there).is_cuda
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

// acts changes files and reaches for the network, and says what it could do; last it reads what it has written.
const acts = `
import os, socket, tempfile
tempfile.NamedTemporaryFile().write(b"x")
open(os.devnull, "w").write("x")
kept, far, port = %q, %q, %d
servers = []
def server():
    servers.append(socket.create_server(("127.0.0.1", 0)))
    return servers[0]
def append(path):
    with open(path, "a") as f:
        f.write("more")
tries = {"append": lambda: append(kept), "far": lambda: append(far), "make": lambda: os.mkdir(kept + ".d"),
         "move": lambda: os.rename(kept, kept + ".1"), "connect": lambda: socket.create_connection(("127.0.0.1", port)),
         "meet": lambda: socket.create_connection(server().getsockname())}
done = []
for name, act in tries.items():
    try:
        act()
    except OSError:
        continue
    done.append(name)
seen = [open(p).read() for p in (kept, kept + ".1") if os.path.exists(p)]
print("done: %%s, sees %%s" %% (done, seen))
`

// fenced runs a program in a fence, and says what it printed.
func fenced(t *testing.T, f *Fence, text string) string {
	t.Helper()
	dir, err := scratch()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dir.Discard(); err != nil {
			t.Error(err)
		}
	}()
	if err := dir.Mkdir("tmp"); err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(f.told(dir.Path()))
	if err != nil {
		t.Fatal(err)
	}
	const begin = "import json, sys\nfrom memgauge_estimate_fence import enclose\nenclose(json.loads(sys.argv[1]))\n"
	c := exec.CommandContext(t.Context(), env.Torch(t).Path, "-c", begin+text, string(settings))
	c.SysProcAttr = f.attributes()
	c.SysProcAttr.Pdeathsig = 0
	c.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir.Path(), "py"),
		"TMPDIR="+filepath.Join(dir.Path(), "tmp"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	return string(out)
}

// TestFencedScript: in every fence that can be had a script changes no file and reaches no network, and has its
// temporary files. In a view it finds what it has written.
func TestFencedScript(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := candidates(&Run{})
	for i, f := range all {
		t.Run(fmt.Sprintf("%d of %d", i+1, len(all)), func(t *testing.T) {
			dir, far := t.TempDir(), filepath.Join(t.TempDir(), "far")
			kept := filepath.Join(dir, "kept")
			for _, path := range []string{kept, far} {
				if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f.dirs = []string{dir, t.TempDir()}
			if err := f.try(t.Context(), env.Torch(t).Path); err != nil {
				env.Missing(t, "unshare", err)
			}
			text := fmt.Sprintf(acts, kept, far, l.Addr().(*net.TCPAddr).Port)
			want := "done: [], sees ['kept']"
			if f.Files == FilesView {
				want = "done: ['append', 'make', 'move', 'meet'], sees ['keptmore']"
			}
			if said := fenced(t, &f, text); !strings.Contains(said, want) {
				t.Errorf("wanted %s: %s", want, said)
			}
			for _, path := range []string{kept, far} {
				if text, err := os.ReadFile(path); err != nil || string(text) != "kept" {
					t.Errorf("%s has %q, %v", path, text, err)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("the directory holds %v, %v", left, err)
			}
		})
	}
}

// TestViewKeepsWhatIsMountedBelow: a file system below the directory is there, and is not written.
func TestViewKeepsWhatIsMountedBelow(t *testing.T) {
	f := candidates(&Run{})[0]
	f.dirs = []string{"/dev"} // has /dev/shm, /dev/pts and the like below it
	if err := f.try(t.Context(), env.Torch(t).Path); err != nil {
		env.Missing(t, "unshare", err)
	}
	mark := filepath.Join("/dev/shm", fmt.Sprintf("memgauge-test-%d", os.Getpid()))
	if err := os.WriteFile(mark, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(mark)
	const text = `
said = open(%[1]q).read()
try:
    open(%[1]q, "w")
except OSError:
    said += ", not written"
print("said: " + said)
`
	if said := fenced(t, &f, fmt.Sprintf(text, mark)); !strings.Contains(said, "said: kept, not written") {
		t.Error(said)
	}
}

// TestRunsInFullOnce: the second run is for shapes alone where these tell the same.
func TestRunsInFullOnce(t *testing.T) {
	env.Long(t, "two trainings; TestRecordsATraining has that shapes tell the same")
	const counted = `
import os
if float((torch.ones(1 << 16) + 1).sum()) == 2 << 16: # arithmetic was done
    open(os.environ["RAN"], "a").write("x")
`
	ran := filepath.Join(t.TempDir(), "ran")
	t.Setenv("RAN", ran)
	text := strings.Replace(training, "BATCH = 32\n", "BATCH = 32\n"+counted, 1)
	r := Run{Python: env.Torch(t).Path, Argv: []string{script(t, text)}, Steps: 1,
		Capability: [2]int{8, 0}, Writes: true}
	if err := r.Enclose(t.Context()); err != nil {
		env.Missing(t, "unshare", err)
	}
	programs, err := Observe(t.Context(), r, []string{AsIs, Half}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if !programs[0].Exact || len(programs) != 2 {
		t.Errorf("%d programs, the same operations: %t", len(programs), programs[0].Exact)
	}
	if full, _ := os.ReadFile(ran); len(full) != 1 {
		t.Errorf("run in full %d times", len(full))
	}
}
