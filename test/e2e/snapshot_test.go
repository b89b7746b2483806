package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// fakeTrainer starts a process that seems to train on CUDA, under flags of run. done ends it.
func fakeTrainer(t *testing.T, w *world, flags ...string) (done func()) {
	t.Helper()
	trace := filepath.Join(env.Checkout(), "testdata", "snapshots", "transformer.trace.gz")
	pickle := filepath.Join(w.home, "taken.pickle")
	if r := w.do("memgauge", "alloc", "convert", trace, pickle); r.code != 0 {
		t.Fatal(r.stderr)
	}
	args := append(append([]string{"run", "--quiet", "--name", "faked"}, flags...), "--", env.Torch(t).Path,
		script(t, "fakesnapshot.py"), pickle)
	j := w.start("memgauge", args...)
	until(t, "the trainer", func() bool { return strings.Contains(j.out.String(), "ready") })
	return func() {
		t.Helper()
		if err := j.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		j.wait(t)
	}
}

// A live trainer is told to record, and writes its snapshot where it was asked to; one that does not use CUDA says so.
func TestSnapshotOfALiveTrainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	done := fakeTrainer(t, w)
	take := func(args ...string) result {
		return w.do("memgauge", append([]string{"faked", "snapshot", "take"}, args...)...)
	}
	r := take()
	path := strings.TrimSpace(r.stdout)
	if r.code != 0 || !strings.Contains(r.stderr, "no history is recorded") || filepath.Base(filepath.Dir(path)) == "" {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", path, info, err)
	}
	r = w.do("memgauge", "faked", "snapshot", "record", "--on", "--max-entries", "500", "--stacks", "all")
	if r.code != 0 || !strings.Contains(r.stdout, "the newest 500 events, stacks all") ||
		!strings.Contains(r.stderr, "snapshot record --off ends it") {
		t.Errorf("record: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := w.do("memgauge", "faked", "eval", "recorded"); !strings.Contains(r.stdout,
		"[('all', {'stacks': 'all', 'max_entries': 500})]") {
		t.Errorf("the trainer heard %s%s", r.stdout, r.stderr)
	}
	named := filepath.Join(w.home, "named.pickle")
	if r := take("-o", named); r.code != 0 || strings.TrimSpace(r.stdout) != named ||
		strings.Contains(r.stderr, "no history") {
		t.Errorf("take -o: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := w.do("memgauge", "snapshot", "query", "-f", "csv", named,
		"SELECT count(*) > 100 AS many FROM events"); !strings.Contains(r.stdout, "true") {
		t.Errorf("query: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := w.do("memgauge", "faked", "snapshot", "record", "--off"); r.code != 0 ||
		!strings.Contains(r.stdout, "no history is recorded any more") {
		t.Errorf("record --off: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := w.do("memgauge", "faked", "eval", "torch.cuda.is_initialized = lambda: False"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	for _, args := range [][]string{{"take"}, {"record", "--on"}} {
		r := w.do("memgauge", append([]string{"faked", "snapshot"}, args...)...)
		if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "does not use CUDA") ||
			!strings.Contains(r.stderr, "hint: ") {
			t.Errorf("%v without CUDA: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	done()
	if r := w.do("memgauge", "faked", "snapshot"); !strings.Contains(r.stdout, "PyTorch memory snapshot") {
		t.Errorf("the one that was kept: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := take(); r.code != 1 || r.stdout != "" {
		t.Errorf("of a finished session: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if taking, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*", "taking-*")); len(taking) > 0 {
		t.Errorf("left behind: %v", taking)
	}
}

// With --record-memory the history is recorded from the start, and the session has the snapshot of an allocation that
// failed.
func TestRecordMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	done := fakeTrainer(t, w, "--record-memory")
	if r := w.do("memgauge", "faked", "eval", "recorded"); !strings.Contains(r.stdout,
		"[('all', {'stacks': 'python', 'max_entries': 100000})]") {
		t.Errorf("the trainer heard %s%s", r.stdout, r.stderr)
	}
	done()
	kept, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*", "snapshot.*.pickle"))
	if len(kept) != 1 {
		t.Fatalf("kept: %v", kept)
	}
	if r := w.do("memgauge", "faked", "snapshot"); !strings.HasPrefix(r.stdout, kept[0]) {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r := w.do("memgauge", "faked", "query", "-f", "csv",
		"SELECT name FROM memgauge.events WHERE name IN ('record', 'snapshot') ORDER BY ts")
	if strings.Join(strings.Fields(r.stdout), " ") != "name record snapshot" {
		t.Errorf("events: %s%s", r.stdout, r.stderr)
	}
	if r := w.do("memgauge", "run", "--record-memory", "--max-disk", "64MiB", "--", "true"); r.code != 2 ||
		!strings.Contains(r.stderr, "quarter") {
		t.Errorf("too little disk: exit %d\n%s", r.code, r.stderr)
	}
}
