package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/faces/advise"
	"github.com/memgauge/memgauge/test/env"
)

// A live trainer is asked for its snapshot, which the session keeps for when it is gone; one that does not use CUDA
// says so.
func TestAdviseOnALiveSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	trace := filepath.Join(env.Checkout(), "testdata", "snapshots", "transformer.trace.gz")
	pickle := filepath.Join(w.home, "taken.pickle")
	if r := w.do("memgauge", "alloc", "convert", trace, pickle); r.code != 0 {
		t.Fatal(r.stderr)
	}
	j := w.start("memgauge", "run", "--quiet", "--name", "advised", "--", env.Torch(t).Path,
		script(t, "fakesnapshot.py"), pickle)
	until(t, "the trainer", func() bool { return strings.Contains(j.out.String(), "ready") })
	r := w.do("memgauge", "advised", "alloc", "advise")
	if r.code != 0 || !strings.Contains(r.stdout, "PYTORCH_ALLOC_CONF=expandable_segments:True") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	kept, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*", "snapshot.*.pickle"))
	if taking, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*", "taking-*")); len(taking) > 0 ||
		len(kept) != 1 {
		t.Fatalf("left behind: %v; kept: %v", taking, kept)
	}
	first := r.stdout
	if r := w.do("memgauge", "advised", "alloc", "replay", "--policy", "torch,vmm"); r.code != 0 ||
		!strings.Contains(r.stdout, "vmm would have reserved") {
		t.Errorf("replay: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := w.do("memgauge", "advised", "eval", "torch.cuda.is_initialized = lambda: False"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	r = w.do("memgauge", "advised", "alloc", "advise")
	if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "does not use CUDA") ||
		!strings.Contains(r.stderr, "hint: ") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if err := j.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	j.wait(t)
	r = w.do("memgauge", "advised", "alloc", "advise")
	if r.code != 0 || r.stdout != first || !strings.Contains(r.stderr, "from the snapshot of pid") {
		t.Errorf("finished session: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if err := os.Remove(kept[0]); err != nil {
		t.Fatal(err)
	}
	r = w.do("memgauge", "advised", "alloc", "advise")
	if r.code != 1 || !strings.Contains(r.stderr, "has no snapshot of its allocator") ||
		!strings.Contains(r.stderr, "_record_memory_history") {
		t.Errorf("finished session without a snapshot: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// A history recorded on an H100: the saving that is simulated is what a second recording, with the setting, did save.
// It is tested here since the race detector's build of package alloc checks everything after each operation.
func TestAdviseOfAnH100(t *testing.T) {
	const expandable, segments = 3_613_392_896, 4_622_123_008 // reserved at the peak, as package replay knows
	file := filepath.Join(env.Checkout(), "testdata/snapshots/h100-segments.pickle.gz")
	a, note, err := advise.Allocator(t.Context(), file)
	if err != nil || a == nil || a.Saves == nil {
		t.Fatalf("%v, %q, %v", a, note, err)
	}
	if off := float64(*a.Saves) / (segments - expandable); a.Known != advise.Simulated || off < 0.95 || off > 1.05 {
		t.Errorf("%s saves %d, %.2f of what it did save", a.Change, *a.Saves, off)
	}
}
