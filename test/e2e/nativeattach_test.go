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

// leaker starts a program that leaks native memory, and was started without memgauge. It gets a library and STOP.
func (w *world) leaker(python env.Python, name string, args ...string) *program {
	w.t.Helper()
	env.Program(w.t, "cc")
	library, source := filepath.Join(w.home, "late.so"), filepath.Join(env.Checkout(), "test", "native", "attached.c")
	if out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return w.program(append(python.Argv("-W", "ignore", script(w.t, name), library, "STOP"), args...)...)
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
			p := w.leaker(python, "nativelater.py")
			pid := strconv.Itoa(p.pid)
			w.attach(p.pid)
			if out := w.mg("attach", "--native", pid); !strings.Contains(out, "native memory is sampled from now on") {
				t.Errorf("it says %q", out)
			}
			w.mg("attach", "--native", pid) // again
			w.holds(p.pid, "nativelater.py:19", 2e6)
			for _, command := range []string{"where", "native"} {
				if out := w.mg(pid, command); !strings.Contains(out, "not known by line") {
					t.Errorf("%s says %q", command, out)
				}
			}
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

// TestNativeAttachKilled: a memgauge that is killed while it brings the library in, or leads calls back, harms nothing,
// wherever it was, under a storm of allocations in eight threads that find what they wrote.
func TestNativeAttachKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	storm := []string{"200", "0.005"} // rounds, and a pause that leaves the cores to other tests
	if env.InLong() {
		storm = []string{"20000", "0"}
	}
	p := w.leaker(env.CPythons(t)[0], "nativestorm.py", storm...)
	pid := strconv.Itoa(p.pid)
	killed := map[string]int{}
	for i := range env.Times(2, 100) {
		verb := []string{"attach", "--native"}
		if i%2 == 1 {
			w.mg("attach", "--native", "--timeout", "60s", pid)
			verb = []string{"detach"}
		}
		cmd := w.command("memgauge", append(verb, pid)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(4 * maxAttach)) // the instant is to be random
		cmd.Process.Kill()
		if err := cmd.Wait(); err != nil { // else it had come to its end before
			killed[verb[0]]++
		}
		until(t, "a detach", func() bool { // an agent that has just begun has no socket yet
			r := w.do("memgauge", "detach", pid)
			return r.code == 0 || strings.Contains(r.stderr, "is not observed")
		})
		os.RemoveAll(filepath.Join(w.home, "state", "sessions"))
	}
	t.Logf("killed: %v", killed)
	w.mg("attach", "--native", "--timeout", "60s", pid)
	w.holds(p.pid, "nativestorm.py:34", 1e6)
	w.mg("detach", "--timeout", "60s", pid)
	w.onlyLibrary(p.pid)
	if out, errs := p.end(t); out != "ready\nright\n" || errs != "" {
		t.Errorf("the program printed %q and %q", out, errs)
	}
}
