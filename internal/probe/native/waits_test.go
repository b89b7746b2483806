package native

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/test/env"
)

const pool = `import ctypes, os, sys, threading, time
lib = ctypes.CDLL(sys.argv[1])
kept = [b"x" * 50_000 for _ in range(200)]
def waits():
    lib.run(
        5000)
def works():
    lib.start(5000)
    while not lib.done(): kept.append(b"y" * 2000)
def joins():
    t = threading.Thread(target=lib.run, args=(5000,))
    t.start()
    t.join()
for i in range(5):
    time.sleep(.05) # modules that were loaded a moment ago are looked for now and then
    lib.run(100)
globals()[sys.argv[2]]()
os._exit(0)
`

// TestWaits: what a thread without Python allocates is told by the call of the main thread that waits for it, and by no
// line where the main thread does other things, or waits for Python's own locks.
func TestWaits(t *testing.T) {
	module := compile(t, "pool.c", "-shared", "-fPIC", "-pthread")
	code, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	for _, python := range pythons(t) {
		for _, way := range []string{"waits", "works", "joins"} {
			t.Run(python.Name()+"/"+way, func(t *testing.T) {
				sites, names := poolSites(t, python, code, way)
				want := ""
				if way == "waits" {
					want = "5" // before 3.8 a call's line was that of its last argument
				}
				if most := largest(sites); most != want {
					t.Errorf("most of the pool's memory is at %q, not %q: %v", most, want, sites)
				}
				if way != "waits" && len(sites) != 1 {
					t.Errorf("lines are named: %v", sites)
				}
				if all := strings.Join(names, "; "); !strings.Contains(all, "grow (pool.so)") ||
					strings.Contains(all, "in a thread that it waits for") != (way == "waits") {
					t.Errorf("called %s", all)
				}
			})
		}
	}
}

func largest(sites map[string]int64) (most string) {
	for site, bytes := range sites {
		if bytes > sites[most] {
			most = site
		}
	}
	return most
}

// poolSites runs the program, and gives what the pool's thread holds by line, and the functions that it was in.
func poolSites(t *testing.T, python env.Python, module []byte, way string) (sites map[string]int64, names []string) {
	dir, environ := sampling(t, 128*units.KiB)
	script, library := filepath.Join(dir, "pooling.py"), filepath.Join(dir, "pool.so") // a chroot sees them there
	if err := os.WriteFile(script, []byte(pool), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, module, 0o700); err != nil {
		t.Fatal(err)
	}
	c := python.Command(t, script, library, way)
	c.Env = environ
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := NewReader(dir)
	defer r.Close()
	live, stacks, err := r.Look(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pools, lines := map[int64]bool{}, map[int64]string{}
	for _, f := range stacks {
		if f.Kind == "native" && f.Func == "grow" {
			pools[f.Stack] = true
		}
		if lines[f.Stack] == "" && strings.HasSuffix(f.File, "pooling.py") {
			lines[f.Stack] = fmt.Sprint(f.Line)
		}
	}
	sites = map[string]int64{}
	for _, row := range live {
		if pools[row.Stack] && lines[row.Stack] != "16" { // before it begins
			sites[lines[row.Stack]] += row.Bytes
			names = append(names, row.Called)
			if (row.Site == "") != (lines[row.Stack] == "") {
				t.Errorf("site %q, line %q", row.Site, lines[row.Stack])
			}
		}
	}
	return sites, names
}
