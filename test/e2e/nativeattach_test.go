package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// leaker starts a program that leaks native memory in several ways, and was started without memgauge.
func (w *world) leaker(python env.Python) *program {
	w.t.Helper()
	env.Program(w.t, "cc")
	library, source := filepath.Join(w.home, "late.so"), filepath.Join(env.Checkout(), "test", "native", "attached.c")
	if out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return w.program(append(python.Argv("-W", "ignore", script(w.t, "nativelater.py")), library, "STOP")...)
}

// holds waits until a line of the program holds so much more, and says how much.
func (w *world) holds(pid int, line string, least int64) {
	w.t.Helper()
	until(w.t, line, func() bool {
		var d struct {
			Lines   []nativeLine
			Unknown []struct{ Bytes int64 }
		}
		r := w.do("memgauge", strconv.Itoa(pid), "native", "--json", "--top", "0")
		if r.code != 0 || json.Unmarshal([]byte(r.stdout), &d) != nil {
			return false
		}
		for _, l := range d.Lines {
			if strings.HasSuffix(l.Site, line) && l.Bytes >= least {
				return len(d.Unknown) == 1 && d.Unknown[0].Bytes > 1e6
			}
		}
		return false
	})
}

// onlyLibrary checks from outside that the library, which can't be unloaded, is all that is left of us in the process.
func (w *world) onlyLibrary(pid int) {
	w.t.Helper()
	state := filepath.Join(w.home, "state")
	until(w.t, "the agent's files to be closed", func() bool {
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		for line := range strings.Lines(string(maps)) {
			if strings.Contains(line, state) && !strings.Contains(line, "libmemgauge_native.so") {
				return false
			}
		}
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		return !slices.ContainsFunc(fds, func(fd string) bool {
			to, _ := os.Readlink(fd)
			return strings.HasPrefix(to, state)
		})
	})
}

// TestNativeAttach: a program that runs is sampled from now on: what it calls by addresses that it had before, what it
// loads later; also when it is observed already. What it had before is told in bytes. It ends as if nobody had come.
func TestNativeAttach(t *testing.T) {
	t.Parallel()
	all := append(env.CPythons(t), env.ChrootCPythons(t)...)
	if !env.InLong() {
		all = all[len(all)-1:] // TestAttached takes the oldest
	}
	for _, python := range all {
		t.Run(python.Name(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.leaker(python)
			pid := strconv.Itoa(p.pid)
			w.attach(p.pid)
			if out := w.mg("attach", "--native", pid); !strings.Contains(out, "native memory is sampled from now on") {
				t.Errorf("it says %q", out)
			}
			w.mg("attach", "--native", pid) // again
			w.holds(p.pid, "nativelater.py:19", 2e6)
			if err := os.WriteFile(p.stop+".late", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			w.holds(p.pid, "nativelater.py:32", 2e6)
			w.mg("detach", "--timeout", "60s", pid)
			w.onlyLibrary(p.pid)
			w.mg("attach", "--native=64KiB", "--timeout", "60s", pid)
			w.holds(p.pid, "nativelater.py:19", 1e6)
			if out, errs := p.end(t); out != "ready\nright\n" || errs != "" {
				t.Errorf("the program printed %q and %q", out, errs)
			}
		})
	}
}

// TestNativeAttachKilled: a memgauge that is killed while it brings the library in harms nothing, wherever it was.
func TestNativeAttachKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.leaker(env.CPythons(t)[0])
	for range env.Times(2, 100) {
		cmd := w.command("memgauge", "attach", "--native", strconv.Itoa(p.pid))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(4 * maxAttach)) // the instant is to be random
		cmd.Process.Kill()
		_ = cmd.Wait()                     // it was killed
		until(t, "a detach", func() bool { // an agent that has just begun has no socket yet
			r := w.do("memgauge", "detach", strconv.Itoa(p.pid))
			return r.code == 0 || strings.Contains(r.stderr, "is not observed")
		})
		os.RemoveAll(filepath.Join(w.home, "state", "sessions"))
	}
	w.mg("attach", "--native", "--timeout", "60s", strconv.Itoa(p.pid))
	w.holds(p.pid, "nativelater.py:19", 1e6)
	if out, errs := p.end(t); out != "ready\nright\n" || errs != "" {
		t.Errorf("the program printed %q and %q", out, errs)
	}
}
