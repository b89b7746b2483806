package e2e

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestLakeFromElsewhere: a lake whose stage, or an hour of it, leads into a directory of the user's is refused by every
// command that writes it, with the link's name, and the directory stays as it is.
func TestLakeFromElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	thesis := filepath.Join(w.home, "thesis")
	file := filepath.Join(thesis, "chapter.tex")
	if err := errors.Join(os.Mkdir(thesis, 0o700), os.WriteFile(file, []byte("precious"), 0o600)); err != nil {
		t.Fatal(err)
	}
	intact := func(what string) {
		t.Helper()
		list, err := os.ReadDir(thesis)
		if text, _ := os.ReadFile(file); err != nil || len(list) != 1 || string(text) != "precious" {
			t.Fatalf("%s: the user's directory has %v, %v", what, list, err)
		}
	}
	dir := filepath.Join(w.home, "lake")
	makeLake(t, dir)
	stage := filepath.Join(dir, ".stage")
	if err := errors.Join(os.RemoveAll(stage), os.Symlink(thesis, stage)); err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", env.FreePort(t))
	for _, args := range [][]string{{"lake", "merge", dir}, {"hub", "--listen", addr, "--lake", dir}} {
		r := w.do("memgauge", args...)
		if r.code != 1 || !strings.Contains(r.stderr, stage) || !strings.Contains(r.stderr, "is a link") {
			t.Errorf("%v: %+v", args, r)
		}
		intact(args[0])
	}
	hours, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if err != nil || len(hours) == 0 {
		t.Fatalf("hours: %v, %v", hours, err)
	}
	if err := errors.Join(os.Remove(stage), os.RemoveAll(hours[0]), os.Symlink(thesis, hours[0])); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"lake", "merge", dir, "--grace", "1ms"},
		{"lake=" + dir, "query", "FROM python.steps"}} {
		r := w.do("memgauge", args...)
		if r.code != 1 || !strings.Contains(r.stderr, filepath.Base(hours[0])+" is a link") {
			t.Errorf("%v: %+v", args, r)
		}
		intact(args[0])
	}
}

// TestRootInAUsersDirectory: root's hub does not start in a directory that another user can change, and what that user
// has prepared there leads nowhere.
func TestRootInAUsersDirectory(t *testing.T) {
	t.Parallel()
	env.Root(t)
	w := newWorld(t)
	dir, victim := filepath.Join(w.home, "user", "hub"), filepath.Join(w.home, "shadow")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(victim, []byte("precious"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hub.json", "hub.json.new", "nodes.json.new", "join.token", "cert.pem", "hub.lock",
		"lake"} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(filepath.Dir(dir), 65534, 65534), os.Chown(dir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	r := w.do("memgauge", "hub", "--listen", net.JoinHostPort("127.0.0.1", env.FreePort(t)), "--dir", dir)
	if r.code != 1 || !strings.Contains(r.stderr, "belongs to uid 65534") || !strings.Contains(r.stderr, "hint: ") {
		t.Errorf("hub: %+v", r)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("root's file: %q, %v", text, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 7 {
		t.Errorf("the directory has %v, %v", list, err)
	}
}
