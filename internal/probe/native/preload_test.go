package native

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/test/env"
)

// held is what a directory's tables hold now, at lines whose place ends so.
func held(t *testing.T, dir, place string) (sum int64) {
	t.Helper()
	r := NewReader(dir)
	defer r.Close()
	live, _, err := r.Look(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range live {
		if strings.HasSuffix(row.Site, place) {
			sum += row.Bytes
		}
	}
	return sum
}

func preload(list ...string) string { return "LD_PRELOAD=" + strings.Join(list, ":") }

// stress runs the stress for a second with an environment.
func stress(t *testing.T, python env.Python, environ []string) {
	t.Helper()
	c := python.Command(t, "-W", "ignore", filepath.Join(env.Checkout(), "test", "native", "stress.py"), "1")
	c.Env, c.WaitDelay = environ, time.Second
	stuck := time.AfterFunc(3*time.Minute, func() { _ = c.Process.Kill() }) // a deadlock is a failure, not a wait
	defer stuck.Stop()
	if out, err := c.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "ok\n") {
		t.Fatalf("%v: %s", err, out)
	}
}

const holding = `import ctypes, os
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
for i in range(5000): libc.malloc(20_000)
os._exit(0)
`

// TestPreloaded: an allocator that the user preloads stays in use behind the library, and its blocks are known. In
// front of the library it has malloc for itself, and nothing breaks.
func TestPreloaded(t *testing.T) {
	list := env.CPythons(t)
	python := list[len(list)-1]
	for _, path := range env.Allocators(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir, environ := sampling(t, 512*units.KiB)
			library, _, _ := strings.Cut(valueOf(environ, "LD_PRELOAD"), ":")
			behind := append(environ, preload(library, path))
			if got := hold(t, python, dir, behind); math.Abs(got/1e8-1) > 0.3 {
				t.Errorf("%.0f bytes at the line, not some 100 MB", got)
			}
			stress(t, python, append(behind, "MEMGAUGE_NATIVE=16384"))
			front := append(environ, preload(path, library))
			stress(t, python, append(front, "MEMGAUGE_NATIVE=16384"))
		})
	}
}

// hold has a process hold 100 MB, and returns what its table in dir says.
func hold(t *testing.T, python env.Python, dir string, environ []string) float64 {
	t.Helper()
	script := filepath.Join(t.TempDir(), "holding.py")
	if err := os.WriteFile(script, []byte(holding), 0o600); err != nil {
		t.Fatal(err)
	}
	c := python.Command(t, script)
	c.Env = append(environ, "MEMGAUGE_NATIVE_DIR="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return float64(held(t, dir, "holding.py:5"))
}

func valueOf(environ []string, key string) (value string) {
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, key+"="); ok {
			value = v
		}
	}
	return value
}

// compile makes a program or a module of a source in test/native.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), strings.TrimSuffix(source, ".c"))
	args := append([]string{"-O1", "-o", to, filepath.Join(env.Checkout(), "test", "native", source)}, flags...)
	if out, err := exec.CommandContext(t.Context(), env.Program(t, "cc"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// TestDeepBind: blocks go from one malloc to the other's free, and what a free unseen has left in the table goes when
// its address comes again.
func TestDeepBind(t *testing.T) {
	module := compile(t, "deepbind.c", "-shared", "-fPIC")
	dir, environ := sampling(t, 128*units.KiB)
	c := env.CPythons(t)[0].Command(t, filepath.Join(env.Checkout(), "test", "native", "deepbind.py"), module)
	c.Env = environ
	if out, err := c.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Fatalf("%v: %s", err, out)
	}
	if got := float64(held(t, dir, "")); got < 0.8e8 || got > 1.4e8 {
		t.Errorf("%.0f bytes, not some 100 MB and the interpreter's own", got)
	}
}

// TestForkBesideAnAllocator: an allocator maps memory under a lock that its handler of forks takes too, after the
// library's handler. Neither waits for the other, and parent and child go on.
func TestForkBesideAnAllocator(t *testing.T) {
	module := compile(t, "forklock.c", "-DMODULE", "-shared", "-fPIC", "-pthread")
	program := compile(t, "forklock.c", "-pthread", "-rdynamic", "-ldl")
	_, environ := sampling(t, 16*units.KiB)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, program)
	c.Env = append(environ, preload(valueOf(environ, "LD_PRELOAD"), module))
	if out, err := c.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestThreads: 10,000 threads at once, each with a block.
func TestThreads(t *testing.T) {
	program := compile(t, "threads.c", "-pthread", "-rdynamic")
	dir, environ := sampling(t, 512*units.KiB)
	c := exec.CommandContext(t.Context(), program)
	c.Env = environ
	out, err := c.CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == 77 {
		env.Missing(t, "threads", string(out))
	}
	if err != nil || string(out) != "ok\n" {
		t.Fatalf("%v: %s", err, out)
	}
	r := NewReader(dir)
	defer r.Close()
	live, _, err := r.Look(time.Now())
	// On a crowded machine the start's purse is soon empty, and what is told of so few samples is rough.
	got, half := float64(total(live)), 0.0
	for _, row := range live {
		half = math.Hypot(half, float64(row.High-row.Low)/2)
	}
	if off := math.Abs(got - 2e8); err != nil || off > max(0.25*2e8, 2*half) {
		t.Errorf("%.0f ± %.0f bytes, not some 200 MB (%v)", got, half, err)
	}
}

// TestHandlers: signals in C that come at any place, also into a sample, and that map memory; and one for a stack that
// has overflowed, on a small stack of its own.
func TestHandlers(t *testing.T) {
	program := compile(t, "handlers.c", "-rdynamic")
	for _, way := range []string{"timer", "overflow"} {
		t.Run(way, func(t *testing.T) {
			dir, environ := sampling(t, MinInterval)
			c := exec.CommandContext(t.Context(), program, way)
			c.Env = environ
			if out, err := c.CombinedOutput(); err != nil || string(out) != "ok\n" {
				t.Fatalf("%v: %s", err, out)
			}
			if held(t, dir, "") == 0 {
				t.Error("no samples")
			}
		})
	}
}

func total(live []model.NativeLive) (sum int64) {
	for _, row := range live {
		sum += row.Bytes
	}
	return sum
}
