package attach

import (
	"context"
	"errors"
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

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/attach/ptrace"
	"github.com/memgauge/memgauge/test/env"
)

// victimVar makes this test binary an injector that a test kills.
const victimVar = "MEMGAUGE_TEST_INJECT"

// stageVar makes the injector kill itself at a certain point of the first stop.
const stageVar = "MEMGAUGE_TEST_DIE"

// diagnoseVar makes it print what it finds out about a process.
const diagnoseVar = "MEMGAUGE_TEST_DIAGNOSE"

func TestMain(m *testing.M) {
	if pid, err := strconv.Atoi(os.Getenv(victimVar)); err == nil {
		if stage := os.Getenv(stageVar); stage != "" {
			dieAt(pid, stage)
			os.Exit(1)
		}
		fmt.Println("ready")
		for {
			if _, err := Inject(context.Background(), pid, "result = 'x' * 1000",
				Options{Timeout: time.Minute}); err != nil {
				fmt.Fprintln(os.Stderr, "injector:", err)
				os.Exit(1)
			}
		}
	}
	if pid, err := strconv.Atoi(os.Getenv(diagnoseVar)); err == nil {
		for _, c := range Diagnose(pid) {
			fmt.Println(c.Name, c.Detail, c.Err, remedy.Of(c.Err))
		}
		return
	}
	os.Exit(m.Run())
}

// numericLibrary compiles testdata/numeric.c for this processor.
func numericLibrary(t testing.TB) string {
	cc := env.Program(t, "cc")
	dir, err := os.MkdirTemp("/tmp", "memgauge-numeric") // seen under the same path in other roots
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	lib := filepath.Join(dir, "numeric.so")
	args := []string{"-O2", "-march=native", "-shared", "-fPIC", "-o", lib, "testdata/numeric.c", "-lm"}
	if bytes, err := os.ReadFile("/proc/sys/abi/sve_default_vector_length"); err == nil {
		bits, _ := strconv.Atoi(strings.TrimSpace(string(bytes)))
		args = append(args, fmt.Sprintf("-msve-vector-bits=%d", 8*bits)) // so that the arithmetic is in SVE's registers
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return lib
}

// pythons are all that the tests know: CPython 3.8 to 3.15, with two C libraries.
func pythons(t testing.TB) []env.Python {
	all := env.CPythons(t)
	return append(append(all, debian(t)), env.ChrootCPythons(t)...)
}

// debian is the system's own Python: on Debian linked statically, without PIE.
func debian(t testing.TB) env.Python {
	return env.Python{Path: env.Program(t, "/usr/bin/python3")}
}

func hasCtypes(t testing.TB, py env.Python) bool {
	return py.Command(t, "-c", "import ctypes").Run() == nil
}

// checked are the programs that check themselves, for one Python.
func checked(t testing.TB, py env.Python, lib string) [][]string {
	programs := [][]string{{"testdata/checked.py", "calls"}, {"testdata/checked.py", "pure"}}
	if hasCtypes(t, py) {
		programs = append(programs, []string{"testdata/checked.py", "numeric", lib})
	}
	return programs
}

// verify queries a checked program for its state, waits for more turns, and queries it again.
func verify(t testing.TB, p *target) {
	t.Helper()
	const ask = "import __main__\nresult = '%d %r' % (__main__.turns, __main__.bad[:3])"
	turns, bad, _ := strings.Cut(inject(t, p, ask).Value, " ")
	if bad != "[]" {
		t.Fatalf("it computed something else: %s", bad)
	}
	first, _ := strconv.Atoi(turns)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // condition with a deadline
		turns, bad, _ := strings.Cut(inject(t, p, ask).Value, " ")
		if now, _ := strconv.Atoi(turns); bad == "[]" && now > first {
			return
		}
		if time.Now().After(deadline) || bad != "[]" {
			t.Fatalf("turns %s after %d, bad %s", turns, first, bad)
		}
	}
}

// clean waits until nothing of ours is left: no thread, and no mapping except those that a kill between two stops
// leaves.
func clean(t testing.TB, p *target, left int) {
	t.Helper()
	const lasts = 30 * time.Second
	for deadline := time.Now().Add(lasts); ; time.Sleep(time.Millisecond) {
		threads, blocks := ours(t, p.Process.Pid)
		if threads == 0 && blocks <= left {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d threads and %d mappings are left, expected 0 and %d", threads, blocks, left)
		}
	}
}

// ours counts our threads, and mappings of the kind that only we make: an anonymous page of code, then more than
// MaxValue of data.
func ours(t testing.TB, pid int) (threads, blocks int) {
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if comm, _ := os.ReadFile(name); string(comm) == "memgauge\n" {
			threads++
		}
	}
	target := Target{PID: pid}
	maps, err := target.readMaps()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range maps {
		if m.Perm == "r-xp" && m.Path == "" && m.Hi-m.Lo == pageSize && i+1 < len(maps) && maps[i+1].Lo == m.Hi &&
			maps[i+1].Hi-m.Hi > MaxValue {
			blocks++
		}
	}
	return threads, blocks
}

// TestAttaches injects again and again into programs that check themselves.
func TestAttaches(t *testing.T) {
	lib := numericLibrary(t)
	all := pythons(t)
	n := (env.Times(30, 1000) + len(all) - 1) / len(all) // for each program
	for _, py := range all {
		t.Run(py.Name(), func(t *testing.T) {
			for _, program := range checked(t, py, lib) {
				t.Run(program[1], func(t *testing.T) {
					p := start(t, py, program...)
					var stopped []time.Duration
					for range n {
						stopped = append(stopped, inject(t, p, "result = 'here'").Stopped)
					}
					verify(t, p)
					clean(t, p, 0)
					slices.Sort(stopped)
					t.Logf("%d attaches, stopped p50 %v, p99 %v, max %v", n, stopped[n/2], stopped[n*99/100],
						stopped[n-1])
				})
			}
		})
	}
}

// TestKills kills the injector at random instants.
func TestKills(t *testing.T) {
	lib := numericLibrary(t)
	all := pythons(t)
	n := (env.Times(15, 1000) + 3*len(all) - 1) / (3 * len(all))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, py := range all {
		t.Run(py.Name(), func(t *testing.T) {
			var targets []*target
			for _, program := range checked(t, py, lib) {
				p := start(t, py, program...)
				began := time.Now()
				inject(t, p, "")
				life := 3 * time.Since(began)
				for range n {
					kill(t, self, p.Process.Pid, life)
				}
				verify(t, p)
				targets = append(targets, p)
			}
			between := 0
			for _, p := range targets { // each has threads that wait for us some seconds, all at the same time
				clean(t, p, n)
				_, blocks := ours(t, p.Process.Pid)
				between += blocks
			}
			t.Logf("%d programs, %d kills of each, %d between the two stops", len(targets), n, between)
		})
	}
}

// kill kills an injector within a life of several injections.
func kill(t testing.TB, self string, pid int, life time.Duration) {
	t.Helper()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", victimVar, pid))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ready [6]byte
	if _, err := out.Read(ready[:]); err != nil {
		t.Fatal(err)
	}
	time.Sleep(rand.N(life)) // the instant is to be random
	cmd.Process.Kill()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the injector ended by itself: %v %s", err, stderr.String())
	}
}

// TestSignals interrupts a blocked main thread while it is being borrowed: every signal must end the call.
func TestSignals(t *testing.T) {
	for _, py := range pythons(t) {
		t.Run(py.Name(), func(t *testing.T) {
			for _, doing := range []string{"sleep", "read", "lock", "compute"} {
				t.Run(doing, func(t *testing.T) {
					p := start(t, py, "testdata/interrupted.py", doing)
					for range env.Times(3, 100) {
						done := make(chan error, 1)
						go func() {
							_, err := Inject(t.Context(), p.Process.Pid, "", Options{Timeout: time.Minute})
							done <- err
						}()
						time.Sleep(rand.N(10 * time.Millisecond)) // the instant is to be random
						if err := p.Process.Signal(os.Interrupt); err != nil {
							t.Fatal(err)
						}
						if got := p.line(t); got != "interrupted" {
							t.Fatalf("it says %q", got)
						}
						if err := <-done; err != nil {
							t.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// dieAt does what the first stop does, and dies in it.
func dieAt(pid int, stage string) {
	target, err := Inspect(pid)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	i := &injection{Target: target}
	_, err = ptrace.Hold(pid, func(h *ptrace.Held) error {
		die(stage == "stopped")
		chain := ptrace.Chain{Gadgets: i.gadgets, Calls: []ptrace.Call{i.syscall(unix.SYS_GETPID)}}
		if err := h.Enter(writer{target.mem, stage == "written"}, chain); err != nil {
			return err
		}
		die(stage == "entered")
		return nil
	})
	fmt.Fprintln(os.Stderr, err)
}

func die(now bool) {
	if now {
		unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
}

// writer kills the process when it has written.
type writer struct {
	*os.File
	die bool
}

func (w writer) WriteAt(b []byte, at int64) (int, error) {
	n, err := w.File.WriteAt(b, at)
	die(w.die)
	return n, err
}

// TestDeathWhileHeld kills the injector at each point at which the target's thread is stopped.
func TestDeathWhileHeld(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lib := numericLibrary(t)
	for _, program := range checked(t, debian(t), lib) {
		p := start(t, debian(t), program...)
		for _, stage := range []string{"stopped", "written", "entered"} {
			for range env.Times(1, 30) {
				cmd := exec.Command(self)
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", victimVar, p.Process.Pid), stageVar+"="+stage)
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Exited() {
					t.Fatalf("%s: it was not killed: %v %s", stage, err, out)
				}
			}
			verify(t, p)
		}
	}
}
