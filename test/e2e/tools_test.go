package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

const toolsDocument = "../../testdata/seeds/tinytorch-memory-debug-tools.zh-CN.md"

var toolLine = regexp.MustCompile(`(?m)^python (?:-m tools\.memory|memory_debug_cli\.py) (.+)$`)

// Every command line in the document of the tools whose commands these are, as it stands there, with our name for the
// program's: it runs, is ended with Ctrl-C where it does not end by itself, and has written what it promised.
func TestSeedsCommandLines(t *testing.T) {
	env.Long(t, "each command line of a document, some for their seconds; golden files have the output")
	t.Parallel()
	text, err := os.ReadFile(toolsDocument)
	if err != nil {
		t.Fatal(err)
	}
	lines := toolLine.FindAllStringSubmatch(string(text), -1)
	if len(lines) < 20 {
		t.Fatalf("%d command lines found", len(lines))
	}
	w := newWorld(t)
	w.mg("run", "--", "python3", "-c", "pass") // for leak: the newest finished session
	_, gpu := os.Stat("/dev/nvidia0")
	for _, line := range lines {
		args := strings.Fields(line[1])
		t.Run(line[1], func(t *testing.T) {
			w := &world{t: t, home: w.home, env: w.env}
			switch args[0] {
			case "distributed":
				return // TestSeedsCluster: it needs machines
			case "interactive", "leak": // about the finished session
				if r := w.do("memgauge", args...); r.code != 0 || args[0] == "leak" && r.stdout == "" {
					t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
				}
				w.wrote(args)
				return
			}
			r := w.interrupted(args)
			if slices.Contains(args, "--devices") && gpu != nil {
				if r.code != 1 || !strings.Contains(r.stderr, "no device 0") || r.stdout != "" {
					t.Errorf("without a GPU: exit %d\n%s%s", r.code, r.stdout, r.stderr)
				}
				return
			}
			if r.code != 0 && r.code != 3 || r.stdout == "" {
				t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			w.wrote(args)
		})
	}
}

// interrupted runs memgauge until it listens to Ctrl-C, and sends that. Go's runtime catches SIGINT from its first
// moments on, before main can ask for it; a process that dies of the signal had not come so far, and another is
// started.
func (w *world) interrupted(args []string) result {
	w.t.Helper()
	for {
		b := w.start("memgauge", args...)
		until(w.t, "memgauge to catch SIGINT, or to end", func() bool {
			return ended(b) ||
				catchesInterrupt(b.Process.Pid)
		})
		if !ended(b) {
			_ = syscall.Kill(b.Process.Pid, syscall.SIGINT)
		}
		until(w.t, "memgauge to end", func() bool { return ended(b) })
		if !b.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			return result{b.out.String(), b.err.String(), exitCode(b.ProcessState)}
		}
	}
}

func ended(b *background) bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// catchesInterrupt reads SigCgt of /proc/PID/status (proc_pid_status(5)).
func catchesInterrupt(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), "SigCgt:\t")
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 16, 64)
	_, exe, _ := strings.Cut(string(b), "Name:\t")
	return err == nil && mask&(1<<(syscall.SIGINT-1)) != 0 && strings.HasPrefix(exe, "memgauge")
}

// wrote checks the files that a command line names.
func (w *world) wrote(args []string) {
	w.t.Helper()
	for i, a := range args {
		switch a {
		case "--output":
			b, err := os.ReadFile(filepath.Join(w.home, args[i+1]))
			if err != nil || !json.Valid(b) {
				w.t.Errorf("%s: %v", args[i+1], err)
			}
		case "--plot":
			name := filepath.Join(w.home, "memgauge-"+args[0]+".png")
			if b, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(b), "\x89PNG") {
				w.t.Errorf("%s: %v", name, err)
			}
			_ = os.Remove(name)
		}
	}
}

var pythonBlock = regexp.MustCompile("(?s)```python\n(.*?)```")

// Every Python snippet of the document runs as written but for the import line, observed and by itself.
func TestSeedsPythonClasses(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(toolsDocument)
	if err != nil {
		t.Fatal(err)
	}
	snippets := pythonBlock.FindAllStringSubmatch(string(text), -1)
	if len(snippets) < 5 {
		t.Fatalf("%d snippets found", len(snippets))
	}
	agent, err := filepath.Abs("../../python")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range snippets {
		code := strings.ReplaceAll(m[1], "from tools.memory import", "from memgauge import")
		// snippets that go on from an import further up
		for _, class := range []string{"MemoryDebugger", "OOMDetector"} {
			if strings.Contains(code, class+"(") && !strings.Contains(code, "from memgauge") {
				code = "from memgauge import " + class + "\n" + code
			}
		}
		for _, observed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d observed=%v", i, observed), func(t *testing.T) {
				w := newWorld(t)
				path := w.file("snippet.py", code+"\nprint('done')\n")
				r := w.snippet(path, agent, observed)
				if r.code != 0 || !strings.HasSuffix(r.stdout, "done\n") || strings.Contains(r.stderr, "Traceback") {
					t.Errorf("exit %d\n%s%s\n%s", r.code, r.stdout, r.stderr, code)
				}
				for _, file := range regexp.MustCompile(`generate_report\(["'](.+?)["']\)`).FindAllStringSubmatch(code,
					-1) {
					if b, err := os.ReadFile(filepath.Join(w.home, file[1])); err != nil || !json.Valid(b) {
						t.Errorf("%s: %v", file[1], err)
					}
				}
			})
		}
	}
}

func (w *world) snippet(path, agent string, observed bool, args ...string) result {
	w.t.Helper()
	args = append([]string{"-B", path}, args...)
	if observed {
		return w.do("memgauge", append([]string{"run", "--quiet", "--", "python3"}, args...)...)
	}
	cmd := w.command("python3", args...)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+agent)
	return w.finish(cmd)
}

// anyTime starts every class at one moment of an import of a module that is called torch, and prints their reports.
const anyTime = `
import builtins, json, sys
import memgauge
moment, tools, reports = sys.argv[1], [], {}
def begin(now):
    if now == moment:
        for kind in ("MemoryDebugger", "MemoryProfiler", "OOMDetector", "FragmentationAnalyzer", "MemoryLeakDetector"):
            tools.append(getattr(memgauge, kind)())
            tools[-1].start_monitoring()
builtins.during = lambda: begin("during")
begin("before")
import torch
begin("after")
for tool in tools:
    tool.stop_monitoring()
    reports[type(tool).__name__] = tool.get_status_report()
print(json.dumps(reports))
`

// Every class may be started before torch is imported, while it is, and afterwards, in the first moments of a process
// too: where the process is observed, they see its session, else what can be seen without one.
func TestClassesAtAnyTime(t *testing.T) {
	t.Parallel()
	agent, err := filepath.Abs("../../python")
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]string{} // of the report on leaks, with a session and without
	for _, moment := range []string{"before", "during", "after"} {
		for _, observed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s observed=%v", moment, observed), func(t *testing.T) {
				w := newWorld(t)
				w.file("torch/__init__.py", "import builtins\nbuiltins.during()\nfrom . import cuda\n")
				w.file("torch/cuda.py", "is_initialized = is_available = lambda: False\n")
				r := w.snippet(w.file("anytime.py", anyTime), agent, observed, moment)
				var reports map[string]map[string]any
				if err := json.Unmarshal([]byte(r.stdout), &reports); err != nil || r.code != 0 || len(reports) != 5 {
					t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
				}
				for class, report := range reports {
					if (report["session"] != nil) != observed {
						t.Errorf("%s has session %v", class, report["session"])
					}
				}
				host := reports["MemoryProfiler"]["devices"].(map[string]any)["host"].(map[string]any)
				if v := host["statistics"].(map[string]any)["avg_fragmentation"]; v == nil {
					t.Errorf("no fragmentation in %v", host)
				}
				leak := reports["MemoryLeakDetector"]
				members[fmt.Sprint(observed)] = fmt.Sprint(slices.Sorted(maps.Keys(leak)),
					slices.Sorted(maps.Keys(leak["monitoring_summary"].(map[string]any))))
				if got := reports["MemoryDebugger"]["leak"]; got.(map[string]any)["verdict"] != "undecided" {
					t.Errorf("the debugger says of leaks %v", got)
				}
			})
		}
	}
	if members["true"] != members["false"] {
		t.Errorf("reports on leaks have these members with a session, and without:\n%s\n%s", members["true"],
			members["false"])
	}
}

// A heap that is fragmented on purpose, counted from outside in the live process; the truth is known from the script.
func TestFragmentCountsALiveHeap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.file("holes.py", `
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.mallopt(-3, 1 << 30)
blocks = [libc.malloc(100000) for _ in range(8000)]
for p in blocks: ctypes.memset(p, 1, 100000)
for p in blocks[::2]: libc.free(p)
print("holes", flush=True)
while not os.path.exists("trim"): time.sleep(0.05)
libc.malloc_trim(0)
print("trimmed", flush=True)
time.sleep(600)
`)
	s := filepath.Join(w.home, "s")
	run := w.start("memgauge", "run", "--session", s, "--", "python3", path)
	until(t, "the holes", func() bool { return strings.Contains(run.out.String(), "holes") })
	var r result
	until(t, "the agent", func() bool {
		r = w.do("memgauge", "fragment", "--session", s, "--json")
		return r.code != 1 && strings.Contains(r.stdout, `"held_bytes"`) &&
			!strings.Contains(r.stdout, `"verdict": "undecided"`)
	})
	var report struct {
		Verdict string
		Devices map[string]struct {
			Fragmentation struct {
				Free    float64 `json:"free_in_holes_bytes"`
				Holes   float64 `json:"holes"`
				Largest float64 `json:"largest_hole_bytes"`
			}
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatal(err)
	}
	f := report.Devices["host"].Fragmentation
	const chunk = 100016.0
	t.Logf("%.0f bytes in %.0f holes, %+.2f %% of the truth", f.Free, f.Holes, 100*(f.Free/(4000*chunk)-1))
	if r.code != 3 || report.Verdict != "fragmented" || f.Free < 0.95*4000*chunk || f.Free > 1.05*4000*chunk ||
		f.Holes < 4000 || f.Holes > 6000 || f.Largest < chunk {
		t.Errorf("exit %d, %s, %+v: the truth is 4000 holes of %.0f bytes", r.code, report.Verdict, f, chunk)
	}
	if picture := w.do("memgauge", "fragment", "--session", s, "--plot=holes.png", "--duration", "3", "--interval",
		"0.5"); picture.code != 3 {
		t.Errorf("exit %d\n%s", picture.code, picture.stderr)
	}
	if keep := os.Getenv("MEMGAUGE_LOOK"); keep != "" {
		b, _ := os.ReadFile(filepath.Join(w.home, "holes.png"))
		_ = os.WriteFile(keep, b, 0o644)
	}
	// The advice followed: the holes stay, as addresses, and cost nothing.
	w.file("trim", "")
	until(t, "the trim", func() bool { return strings.Contains(run.out.String(), "trimmed") })
	if r := w.do("memgauge", "fragment", "--session", s); r.code != 0 || strings.Contains(r.stdout, "malloc_trim") ||
		!strings.Contains(r.stdout, "given back to the kernel") {
		t.Errorf("after malloc_trim: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL)
	<-run.done
	if r := w.do("memgauge", "fragment", "--session", s); r.code != 0 ||
		!strings.Contains(r.stdout, "the session has ended") {
		t.Errorf("afterwards: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
