package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// planted is a Python program that puts bytecode beside every module of the agent, of the kind that is never compared
// with its source (PEP 552); it writes the file MARK when it runs.
const planted = `
import importlib.util, marshal, os, sys
top, mark = sys.argv[1:]
code = marshal.dumps(compile("open(%r, 'a').write(__name__ + ' ')" % mark, "x", "exec"))
for at, _, files in os.walk(top):
    for name in files:
        if name.endswith(".py"):
            cache = importlib.util.cache_from_source(os.path.join(at, name))
            os.makedirs(os.path.dirname(cache), exist_ok=True)
            with open(cache, "wb") as f:
                f.write(importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code)
`

// TestHomePreparedBySomebodyElse: in a home that another user has made, with our own files in it and his bytecode
// beside them, nothing of his runs and nothing is written; the user is told where his session is.
func TestHomePreparedBySomebodyElse(t *testing.T) {
	t.Parallel()
	env.Root(t)
	w := newWorld(t)
	opened(t, w.home)
	w.env = append(w.env, "HOME="+filepath.Join(w.home, "mine"), "XDG_STATE_HOME=")
	w.mg("run", "--quiet", "--", "true") // leaves our files in the home
	w.settled()
	state, mark := filepath.Join(w.home, "state"), filepath.Join(w.home, "mark")
	agent, err := filepath.Glob(filepath.Join(state, "agent", "*"))
	if err != nil || len(agent) != 1 {
		t.Fatal(agent, err)
	}
	if out, err := exec.Command("python3", "-I", "-c", planted, agent[0], mark).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := w.file("hello.py", "import time; time.sleep(.5); print('hello')")

	// left to us in a home of ours it would run: the test can fail
	python := w.command("python3", script)
	python.Env = append(python.Env, "PYTHONPATH="+agent[0]+"/boot", "MEMGAUGE_RUNTIME=/nowhere")
	if w.finish(python); !exists(mark) {
		t.Fatal("the planted bytecode is none")
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}

	err = filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 12345, 12345)
	})
	if err != nil {
		t.Fatal(err)
	}
	before := listing(t, state)
	r := w.do("memgauge", "run", "--", "python3", script)
	if r.code != 0 || r.stdout != "hello\n" || exists(mark) {
		text, _ := os.ReadFile(mark)
		t.Errorf("exit %d, %q, ran: %q", r.code, r.stdout, text)
	}
	if want := "belongs to uid 12345: others can change it; sessions are in " + w.home +
		"/mine/"; !strings.Contains(r.stderr, want) {
		t.Errorf("it says %q, want %q", r.stderr, want)
	}
	if after := listing(t, state); after != before {
		t.Errorf("it wrote there:\n%s\nbefore\n%s", after, before)
	}
	if n := w.number("", "SELECT count(*) FROM memgauge.processes"); n != 1 {
		t.Errorf("%v processes in the newest session, want 1", n)
	}
}

// TestHomeThatAGroupCanWrite: it gets no code into us either, though sessions go where the user wants them.
func TestHomeThatAGroupCanWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	opened(t, w.home)
	w.env = append(w.env, "HOME="+filepath.Join(w.home, "mine"), "XDG_STATE_HOME=")
	shared := filepath.Join(w.home, "shared")
	if err := os.Mkdir(shared, 0o775); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o775); err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "MEMGAUGE_HOME="+shared)
	r := w.do("memgauge", "run", "--", "sleep", "0.01")
	if r.code != 0 ||
		!strings.Contains(r.stderr, "its group can write "+shared+": others can change it; the agent's files are in "+
			w.home+"/mine/") {
		t.Errorf("exit %d, %q", r.code, r.stderr)
	}
	if found, _ := filepath.Glob(shared + "/*/*"); len(found) != 1 ||
		filepath.Base(filepath.Dir(found[0])) != "sessions" {
		t.Errorf("in the shared home: %v", found)
	}
}

// opened lets others come as far as a test's directory.
func opened(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// listing is every path below dir with its size, mode and owner.
func listing(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("find", dir, "-printf", "%P %s %m %u %y\n").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestFilesArePrivate: whatever the umask of the user's shell, also while a command has just ended and its session is
// recovered.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	script := w.file("umask.py",
		"import os, time; os.umask(0); time.sleep(.6); print('%o' % os.umask(0o777)); time.sleep(.1)")
	for _, umask := range []string{"000", "022", "077"} {
		s := filepath.Join(w.home, "s"+umask)
		r := w.do("sh", "-c",
			fmt.Sprintf("umask %s; memgauge run --quiet --session %s -- python3 -c 'import os; print(\"%%03o\" %% os.umask(0))'; memgauge run --quiet --session %s-2 -- python3 %s", umask, s, s, script))
		if r.code != 0 || r.stdout != umask+"\n0\n" {
			t.Errorf("umask %s: exit %d, %q, %q: the command's own umask must stay", umask, r.code, r.stdout, r.stderr)
		}
		for _, dir := range []string{s, s + "-2", filepath.Join(w.home, "state")} {
			_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err != nil || d.Type()&fs.ModeSymlink != 0 {
					return nil
				}
				if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; info.Mode().Perm() != want {
					t.Errorf("umask %s: %s has mode %v", umask, path, info.Mode())
				}
				return nil
			})
		}
	}
}

// TestBoundAtOnce: a loader that binds every function before the program begins (LD_BIND_NOW is set on some clusters)
// finds all that the program needs, on machines without a GPU's driver too.
func TestBoundAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env = append(w.env, "LD_BIND_NOW=1")
	if out := w.mg("run", "--quiet", "--", "echo", "hello"); out != "hello\n" {
		t.Errorf("%q", out)
	}
	w.mg("doctor")
}
