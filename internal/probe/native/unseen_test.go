package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestUnseen: a module that an allocator is linked into is named with it; a preloaded allocator, which has everybody's
// malloc, is not, nor is the one that CPython has and doesn't use.
func TestUnseen(t *testing.T) {
	cc := env.Program(t, "cc")
	dir := t.TempDir()
	source, module := filepath.Join(dir, "own.c"), filepath.Join(dir, "own.so")
	text := `const char *mine(void) { return "mimalloc: error: out of memory"; }
const char *other(void) { return "<jemalloc>: Error\n"; }`
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", module, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const script = `import ctypes, sys
held = [ctypes.CDLL(p) for p in sys.argv[1:]]
print("ready", flush=True)
sys.stdin.read()
`
	unseen := func(python env.Python, preload []string, modules ...string) string {
		c := python.Command(t, append([]string{"-c", script}, modules...)...)
		c.Env = append(os.Environ(), "LD_PRELOAD="+strings.Join(preload, ":"))
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		names := Unseen(c.Process.Pid)
		in.Close()
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		return names
	}
	all := env.CPythons(t)
	newest := all[len(all)-1]
	if got := unseen(newest, nil, module); got != "jemalloc and mimalloc in own.so" {
		t.Errorf("it says %q", got)
	}
	if got := unseen(newest, nil); got != "" {
		t.Errorf("of a plain Python it says %q", got)
	}
	for _, path := range env.Allocators(t) {
		if got := unseen(newest, []string{path}); got != "" {
			t.Errorf("%s is preloaded: it says %q", path, got)
		}
	}
}
