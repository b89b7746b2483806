package native

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/test/env"
)

// sampling installs the library, and an environment that samples into dir.
func sampling(t *testing.T, interval units.Bytes) (dir string, environ []string) {
	t.Helper()
	dir = t.TempDir()
	library, err := Install(t.TempDir())
	if err != nil {
		env.Missing(t, "cc", fmt.Sprintf("%v (%s)", err, remedy.Of(err)))
	}
	// A chroot sees /tmp and the checkout, and not this test's home.
	return dir, Env(os.Environ(), library, dir, interval)
}

const leaking = `import ctypes, sys, time
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
def leak(n):
    for i in range(n):
        if i % 500 == 0: time.sleep(.05) # modules that were loaded a moment ago are looked for now and then
        libc.malloc(
            20_000)
class Käse:
    def outer(self):
        for i in range(100): bytes(200_000)
        leak(5000)
Käse().outer()
print("leaked", flush=True)
time.sleep(60)
`

// TestKilled: what a process held when it was killed is known, within the error that sampling has, and by its line.
func TestKilled(t *testing.T) {
	for _, python := range pythons(t) {
		t.Run(python.Name(), func(t *testing.T) {
			dir, environ := sampling(t, 512*units.KiB)
			script := filepath.Join(dir, "leaking.py")
			if err := os.WriteFile(script, []byte(leaking), 0o600); err != nil {
				t.Fatal(err)
			}
			c := python.Command(t, script)
			c.Env = environ
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if kerr := c.Process.Kill(); err != nil || kerr != nil || line != "leaked\n" {
				t.Fatalf("%q %v %v", line, err, kerr)
			}
			_ = c.Wait()
			checkLeak(t, dir)
		})
	}
}

func checkLeak(t *testing.T, dir string) {
	t.Helper()
	r := NewReader(dir)
	defer r.Close()
	live, stacks, err := r.Look(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const want = 5000 * 20_000
	sum, id, most := int64(0), int64(0), int64(0)
	for _, l := range live {
		if strings.HasSuffix(l.Site, "leaking.py:8") {
			if sum += l.Bytes; l.Bytes > most {
				id, most = l.Stack, l.Bytes
			}
		}
	}
	// 100 MB are some 190 samples: a standard deviation of 7 %, and 4 of them are no accident
	if math.Abs(float64(sum)/want-1) > 0.3 {
		t.Errorf("%d bytes at the line, not some %d: %+v", sum, int64(want), live)
	}
	var names []string
	for _, f := range stacks {
		if f.Stack == id && f.Kind == "python" {
			names = append(names, fmt.Sprintf("%s:%d", f.Func, f.Line))
		}
	}
	if got := strings.Join(names, " "); got != "leak:8 outer:13 <module>:14" {
		t.Errorf("Python's stack is %q", got)
	}
	if id != 0 && !throughCtypes(stacks) {
		var all []string
		for _, f := range stacks {
			if f.Stack == id {
				all = append(all, f.Func+" "+f.File)
			}
		}
		t.Errorf("no frame of ctypes among %q", all)
	}
	r.Sweep(func(int, uint64) bool { return false })
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+Suffix)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// throughCtypes tells whether a C stack was unwound as far as the call: of some samples the module was not yet known.
func throughCtypes(stacks []model.NativeFrame) bool {
	return slices.ContainsFunc(stacks, func(f model.NativeFrame) bool {
		return f.Kind == "native" && (strings.Contains(f.Func+f.File, "ctypes") || strings.Contains(f.File, "libffi"))
	})
}

// TestStress: threads, forks, signal handlers and small stacks, with a sample every 16 KiB; no deadlock and no crash.
// Once with each Python; more often in the long lane.
func TestStress(t *testing.T) {
	runs := env.Times(1, 10)
	for _, python := range pythons(t) {
		t.Run(python.Name(), func(t *testing.T) {
			for range runs {
				dir, environ := sampling(t, MinInterval)
				stress(t, python, environ)
				if held(t, dir, "") == 0 {
					t.Error("no samples")
				}
			}
			t.Logf("%d runs", runs)
		})
	}
}

// TestDamaged: a file that is no table, or one that is cut short, is an error and nothing else.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	whole := make([]byte, headerSize)
	copy(whole, magic)
	whole[8] = format
	whole[72] = 200 // slots that the file does not have
	for name, data := range map[string][]byte{"empty": nil, "short": whole[:100], "text": make([]byte, 9000),
		"slots": whole} {
		if err := os.WriteFile(filepath.Join(dir, name+Suffix), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(dir)
	defer r.Close()
	live, stacks, err := r.Look(time.Now())
	if err == nil || len(live)+len(stacks) > 0 || strings.Count(err.Error(), ErrCorrupt.Error()) != 4 {
		t.Errorf("%d rows, %d frames, %v", len(live), len(stacks), err)
	}
}

// FuzzFile: whatever lies in the directory, a look ends, with rows or an error.
func FuzzFile(f *testing.F) {
	head := make([]byte, headerSize+4*slotSize)
	copy(head, magic)
	head[8] = format
	f.Add(head)
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "1.1.1"+Suffix), data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := NewReader(dir)
		defer r.Close()
		_, _, _ = r.Look(time.Now())
	})
}

// TestEnv: what the user preloads stays, behind the library, and a session in a session has one library.
func TestEnv(t *testing.T) {
	base := []string{"A=1", "LD_PRELOAD=/x/" + libraryName + " /y/libjemalloc.so.2", "MEMGAUGE_NATIVE=1"}
	got := strings.Join(Env(base, "/new/"+libraryName, "/dir", 524288), "\n")
	want := "A=1\nLD_PRELOAD=/new/" + libraryName + ":/y/libjemalloc.so.2\nMEMGAUGE_NATIVE=524288\n" +
		"MEMGAUGE_NATIVE_DIR=/dir\nARROW_DEFAULT_MEMORY_POOL=system"
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := strings.Join(Without(base), "\n"); got != "A=1\nLD_PRELOAD=/y/libjemalloc.so.2" {
		t.Errorf("without it: %s", got)
	}
}
