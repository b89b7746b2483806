package attach

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// inside runs a Python in namespaces of its own.
func inside(t *testing.T, flags string) *target {
	t.Helper()
	if err := exec.Command("unshare", strings.Fields(flags+" true")...).Run(); err != nil {
		env.Missing(t, "unshare", fmt.Sprintf("unshare %s: %v", flags, err))
	}
	script, err := filepath.Abs("testdata/doing.py")
	if err != nil {
		t.Fatal(err)
	}
	return start(t, env.Python{Path: "unshare"}, append(strings.Fields(flags), debian(t).Path, script, "sleep")...)
}

// TestNamespaces enters a process that sees neither our files nor our PIDs.
func TestNamespaces(t *testing.T) {
	for flags, want := range map[string]string{
		"--mount":                        "mount namespace",
		"--mount --user --map-root-user": "user namespace",
		"--pid --fork --kill-child --mount --mount-proc": "PID namespace",
		"--net": "network namespace",
	} {
		t.Run(want, func(t *testing.T) {
			p := inside(t, flags)
			pid := p.Process.Pid
			if strings.Contains(flags, "--fork") {
				children, err := filepath.Glob("/proc/[0-9]*/status")
				if err != nil {
					t.Fatal(err)
				}
				for _, path := range children {
					if s, err := readStatus(path); err == nil && s.ppid == p.Process.Pid {
						pid = s.tgid
					}
				}
			}
			r, err := Inject(t.Context(), pid, "import os; result = str(os.getpid())", Options{})
			if err != nil {
				t.Fatal(err)
			}
			target, err := Inspect(pid)
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			if !slices.Contains(target.Elsewhere, want) || r.Value != strconv.Itoa(target.Inner) {
				t.Errorf("%v, its PID is %s, expected %d", target.Elsewhere, r.Value, target.Inner)
			}
		})
	}
}

// TestVenv enters a virtual environment's Python, whose program is a link to another one.
func TestVenv(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "venv")
	base := env.CPythons(t)[0]
	if out, err := base.Command(t, "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
		t.Fatalf("venv: %v\n%s", err, out)
	}
	p := start(t, env.Python{Path: filepath.Join(dir, "bin", "python")}, "testdata/doing.py", "join")
	if r := inject(t, p, "import sys; result = sys.prefix"); r.Value != dir {
		t.Errorf("%+v, want the prefix %s", r, dir)
	}
}
