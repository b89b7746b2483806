package e2e

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// pictureJSON is what the test reads of memgauge where --json.
type pictureJSON struct {
	Host struct {
		ChargedBytes int64   `json:"charged_bytes"`
		NamedShare   float64 `json:"named_share"`
		LimitBytes   int64   `json:"limit_bytes"`
		LimitKind    string  `json:"limit_kind"`
		KernelCounts struct {
			Anonymous int64
			Processes int64 `json:"processes_total"`
		} `json:"kernel_counts"`
		Classes map[string]*int64
	}
	Processes []struct {
		PID     int
		Role    string
		Classes map[string]*int64
	}
}

// A real training with four workers in a cgroup: where names at least 95 % of what the kernel charges, and the
// processes add up to what the kernel counts within 2 %. While it runs and afterwards.
func TestWhereNamesEveryByte(t *testing.T) {
	t.Parallel()
	const limit = 3 << 30
	python := env.Torches(t)[0].Path
	dir := memoryCgroup(t, limit)
	w := newWorld(t)
	s, stop := filepath.Join(w.home, "s"), filepath.Join(w.home, "stop")
	cmd := w.command("memgauge", append([]string{"run", "--quiet", "--session", s, "--"},
		inCgroup(dir, python, script(t, "workers.py"), stop)...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		os.WriteFile(stop, nil, 0o600)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the training: %v", err)
		}
		checkPicture(t, w.mg("where", "--json", "--session", s), limit, false)
	}()
	w.until("four workers and some steps", func() bool {
		return w.do("memgauge", "query", "--session", s, "SELECT 1").code == 0 &&
			w.number(s, "SELECT count(*) FROM process.tree WHERE role = 'worker' AND NOT ended") == 4 &&
			w.number(s, "SELECT coalesce(sum(steps), 0) FROM python.steps") > 20 &&
			// what the finished job's picture goes by
			w.number(s, "SELECT count(DISTINCT pid) FROM process.classes") == 5
	})
	var text string // of a moment in which nobody allocated between the kernel's count and that of the last process
	w.until("the processes to add up to what the kernel counts", func() bool {
		text = w.mg("where", "--json", "--session", s)
		return addsUp(t, text)
	})
	checkPicture(t, text, limit, true)
	if text := w.mg("where", "--session", s); !strings.Contains(text, "heap in use") ||
		!strings.Contains(text, "trainer") {
		t.Errorf("where prints\n%s", text)
	}
}

// Afterwards nobody can be asked any more: what the agents say of malloc's and Python's memory was recorded, of a
// forked process too.
func TestWhereOfAFinishedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, stop := filepath.Join(w.home, "s"), filepath.Join(w.home, "stop")
	program := w.file("fork.py", `
import os, sys, time
kept = [str(i) for i in range(300000)]
child = os.fork()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
if child:
    os.wait()
`)
	cmd := w.command("memgauge", "run", "--quiet", "--session", s, "--", "python3", program, stop)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "a session", func() bool { return w.do("memgauge", "query", "--session", s, "SELECT 1").code == 0 })
	w.until("what both agents say", func() bool {
		return w.number(s, "SELECT count(DISTINCT pid) FROM process.classes WHERE python_arenas IS NOT NULL") >= 2
	})
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var p pictureJSON
	if text := w.mg("where", "--json", "--session", s); json.Unmarshal([]byte(text), &p) != nil ||
		len(p.Processes) != 2 {
		t.Fatalf("where says %s", text)
	}
	for _, x := range p.Processes {
		for _, class := range []string{"heap_in_use", "heap_free", "python_arenas", "stacks"} {
			if x.Classes[class] == nil {
				t.Errorf("of process %d (%s) the class %s is unknown", x.PID, x.Role, class)
			}
		}
	}
}

// addsUp says whether the processes' anonymous memory is what the kernel counts, within 2 % of all that is charged.
func addsUp(t *testing.T, text string) bool {
	t.Helper()
	var p pictureJSON
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	k := p.Host.KernelCounts
	return math.Abs(float64(k.Processes-k.Anonymous)) <= 0.02*float64(p.Host.ChargedBytes)
}

func checkPicture(t *testing.T, text string, limit int64, live bool) {
	t.Helper()
	var p pictureJSON
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Logf("live %v: %d MiB charged, %.2f %% named, anonymous %d by the kernel and %d by the processes", live,
		p.Host.ChargedBytes>>20,
		100*p.Host.NamedShare, p.Host.KernelCounts.Anonymous>>20, p.Host.KernelCounts.Processes>>20)
	if p.Host.LimitKind != "cgroup" || p.Host.LimitBytes != limit || p.Host.NamedShare < 0.95 {
		t.Errorf("host %+v", p.Host)
	}
	roles := map[string]int{}
	for _, x := range p.Processes {
		roles[x.Role]++
	}
	if roles["trainer"] != 1 || roles["worker"] != 4 {
		t.Errorf("roles %v", roles)
	}
	if !live {
		return
	}
	for _, class := range []string{"heap_in_use", "heap_free", "anonymous", "stacks", "file", "shared", "page_tables"} {
		if p.Host.Classes[class] == nil || *p.Host.Classes[class] <= 0 {
			t.Errorf("class %s is %v", class, p.Host.Classes[class])
		}
	}
	if n := *p.Host.Classes["heap_in_use"]; n < 64<<20 { // the trainer's large block alone
		t.Errorf("%d in use by the heap, want at least the block of 64 MiB", n)
	}
}

// until waits for a condition that the session's tables tell.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	// another process's doing can't be waited for
	for end := time.Now().Add(patience); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// The kernel kills a job at its limit: list says so, the event names it, and the minute before is there at full
// resolution.
func TestOOMKillIsRecorded(t *testing.T) {
	t.Parallel()
	const limit = 300 << 20
	dir := memoryCgroup(t, limit)
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	begin := filepath.Join(w.home, "begin")
	p := w.start("memgauge", append([]string{"run", "--session", s, "--"},
		inCgroup(dir, "python3", script(t, "fill.py"), begin)...)...)
	w.until("a sample of the cgroup", func() bool {
		return w.do("memgauge", "query", "--session", s, "SELECT 1").code == 0 &&
			w.number(s, "SELECT count(*) FROM cgroup.memory WHERE path LIKE '%memgauge-test%'") > 0
	})
	if err := os.WriteFile(begin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t); code != 137 {
		t.Errorf("exit %d", code)
	}
	if text := p.err.String(); !strings.Contains(text, "OOM kill") {
		t.Fatalf("it ends with\n%s", text)
	}
	if list := w.mg("list", "-a"); !strings.Contains(list, "OOM kill") {
		t.Errorf("list prints\n%s", list)
	}
	if n := w.number(s,
		"SELECT count(*) FROM memgauge.events WHERE name = 'oom_kill' AND pid IS NOT NULL AND b = 314572800 AND a > 200000000"); n != 1 {
		t.Errorf("%v events; %s", n, w.mg("query", "--session", s, "FROM memgauge.events"))
	}
	window := "SELECT count(*) FROM memgauge.event_window w JOIN memgauge.events e ON e.ts = w.event_ts WHERE e.name = 'oom_kill' AND scope = "
	if n := w.number(s, window+"'process'"); n < 2 { // how many depends on how fast it grew
		t.Errorf("%v glances at the process", n)
	}
	if n := w.number(s,
		"SELECT max(bytes) FROM memgauge.event_window WHERE scope = 'cgroup' AND name LIKE '%memgauge-test%'"); n < 0.8*limit || n > limit {
		t.Errorf("the cgroup held %v at most, the limit is %d", n, int64(limit))
	}
}
