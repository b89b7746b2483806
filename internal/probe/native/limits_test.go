package native

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/test/env"
)

// limited runs the program that holds 100 MB behind a line of shell, with its table in dir. The shell is started by
// words in front of it.
func limited(t *testing.T, dir, shell string, before ...string) {
	t.Helper()
	list := env.CPythons(t)
	_, environ := sampling(t, 512*units.KiB)
	script := filepath.Join(t.TempDir(), "holding.py")
	if err := os.WriteFile(script, []byte(holding), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(before, "sh", "-c", shell+` && exec "$@"`, "sh", list[len(list)-1].Path, script)
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Env = append(environ, "MEMGAUGE_NATIVE_DIR="+dir)
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLimits: where no table can be made the program runs without one, to its end and in silence. What is written
// beyond the limit of a file's size would end it by SIGXFSZ.
func TestLimits(t *testing.T) {
	for _, shell := range []string{"ulimit -f 0", "ulimit -f 100"} {
		t.Run(shell, func(t *testing.T) {
			dir := t.TempDir()
			limited(t, dir, shell)
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	for _, shell := range []string{"ulimit -v 250000", "ulimit -n 4"} { // there may be a table or not
		t.Run(shell, func(t *testing.T) { limited(t, t.TempDir(), shell) })
	}
	for name, dir := range map[string]string{"no directory": "/nowhere", "not ours": "/proc/self"} {
		t.Run(name, func(t *testing.T) { limited(t, dir, "true") })
	}
}

// TestFull: a file system that is full or read-only, or becomes full while samples are taken, costs samples and no
// more.
func TestFull(t *testing.T) {
	if os.Geteuid() != 0 {
		env.Missing(t, "root", "only root mounts file systems")
	}
	for _, option := range []string{"size=4k", "size=300k", "ro"} {
		t.Run(option, func(t *testing.T) {
			dir := t.TempDir()
			limited(t, dir, fmt.Sprintf("mount -t tmpfs -o %s none '%s'", option, dir), env.Program(t, "unshare"), "-m")
		})
	}
}
