package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// Another user has prepared a session for root to look at: links to what root can write, and a socket that answers.
// Every command that takes a session refuses, starts nothing and touches nothing.
func TestRootLooksAtAnotherUsersSession(t *testing.T) {
	t.Parallel()
	env.Root(t)
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	if r := w.do("memgauge", "run", "--quiet", "--session", s, "--", "true"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	until(t, "its collector's end", func() bool { return len(collectors(s)) == 0 })
	victim := filepath.Join(w.home, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"collector.log", "owner.lock", "session.duckdb", "end.json"} {
		os.Remove(filepath.Join(s, name))
		if err := os.Symlink(victim, filepath.Join(s, name)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("chown", "-hR", "65534:65534", s).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before, err := os.ReadDir(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"query", "SELECT 1"}, {"tables"}, {"where"}, {"leak"}, {"report"}, {"eval", "1"},
		{"backtrace"}, {"tensors"}, {"oom"}, {"fragment"}} {
		r := w.do("memgauge", append(args[:1:1], append([]string{"--session", s}, args[1:]...)...)...)
		if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "belongs to another user") ||
			!strings.Contains(r.stderr, "hint: ask with its owner's rights: sudo -u") {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("the file behind the links is %q, %v", b, err)
	}
	if after, err := os.ReadDir(s); err != nil || len(after) != len(before) {
		t.Errorf("%d files in the session, were %d: %v", len(after), len(before), err)
	}
	if pids := collectors(s); len(pids) > 0 {
		t.Errorf("collectors %v", pids)
	}
}

// Root gives another user's program memory to write its records into, and no file that could fill root's disk; the
// records are read all the same, also those that a killed one has left.
func TestRingOfAnotherUsersProgram(t *testing.T) {
	t.Parallel()
	env.Root(t)
	w := newWorld(t)
	p := w.program("setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c",
		"import time\nprint('ready', flush=True)\ntime.sleep(120)")
	pid := strconv.Itoa(p.pid)
	s := filepath.Join(w.home, "s")
	w.mg("attach", "--session", s, pid)
	rings, _ := filepath.Glob(filepath.Join(s, "rings", "*.ring"))
	if len(rings) != 1 {
		t.Fatalf("rings %v", rings)
	}
	if st, err := os.Stat(rings[0]); err != nil || st.Size() > 128 {
		t.Fatalf("its ring is a file of %d bytes, %v", st.Size(), err)
	}
	if out := w.mg("eval", "--session", s, "6*7"); out != "42\n" {
		t.Errorf("eval says %q", out)
	}
	if n := w.number(s, "SELECT count(*) FROM memgauge.events WHERE name = 'eval'"); n != 1 {
		t.Errorf("%v evals in memgauge.events", n)
	}
	_ = syscall.Kill(p.pid, syscall.SIGKILL)
	until(t, "the end", func() bool { return len(collectors(s)) == 0 })
	if end := w.one(s, "SELECT ending FROM memgauge.processes"); end != "vanished" {
		t.Errorf("it ended as %v", end)
	}
	if rings, _ := filepath.Glob(filepath.Join(s, "rings", "*")); len(rings) > 0 {
		t.Errorf("%v are left", rings)
	}
}
