package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// Another user has prepared a session for root to look at: links to what root can write, and a socket that answers. Every
// command that takes a session refuses, starts nothing and touches nothing.
func TestRootLooksAtAnotherUsersSession(t *testing.T) {
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
	for _, args := range [][]string{{"query", "SELECT 1"}, {"tables"}, {"where"}, {"leak"}, {"report"}, {"eval", "1"}, {"backtrace"}, {"tensors"}, {"oom"}, {"fragment"}} {
		r := w.do("memgauge", append(args[:1:1], append([]string{"--session", s}, args[1:]...)...)...)
		if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "belongs to another user") || !strings.Contains(r.stderr, "hint: ask with its owner's rights: sudo -u") {
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
