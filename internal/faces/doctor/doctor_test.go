package doctor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// tree makes a machine of files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func container() map[string]string {
	return map[string]string{
		"proc/meminfo": "MemTotal: 1056763576 kB\nMemAvailable: 900000000 kB\n" +
			"SwapTotal: 0 kB\n",
		"proc/vmstat":  "oom_kill 3\n",
		"proc/loadavg": "0.50 0.40 0.30 1/100 4242\n",
		"proc/pressure/memory": "some avg10=1.50 avg60=0.00 avg300=0.00 total=99\n" +
			"full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
		"proc/self/mountinfo":               "31 23 0:27 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
		"proc/sys/kernel/yama/ptrace_scope": "2\n",
		"sys/fs/cgroup/memory.current":      "10737418240\n",
		"sys/fs/cgroup/memory.max":          "17179869184\n",
		"sys/fs/cgroup/memory.stat": "anon 9000000000\nfile 1000000000\nshmem 0\n" +
			"inactive_file 500000000\n",
		"dev/shm/.keep":                                  "",
		"sys/class/drm/card0/device/vendor":              "0x1002\n",
		"sys/class/drm/card0/device/mem_info_vram_total": "68702699520\n",
		"sys/class/drm/card0/device/mem_info_vram_used":  "702699520\n",
		"sys/class/drm/card0/device/product_name":        "AMD Instinct MI250X\n",
	}
}

func find(t *testing.T, r Report, name string) Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check of %s in %+v", name, r.Checks)
	return Check{}
}

// In a container memory is what the cgroup allows, not what the host has.
func TestContainer(t *testing.T) {
	files := container()
	root := tree(t, files)
	self := filepath.Join(root, "proc", "77")
	if err := os.MkdirAll(self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(root, "proc/self/mountinfo"), filepath.Join(self, "mountinfo")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "proc/self")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("77", filepath.Join(root, "proc/self")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(self, "cgroup"), []byte("0::/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := Machine{Root: root, Home: filepath.Join(root, "state", "memgauge"),
		Python: "no-such-python"}.Examine(t.Context())
	if f := r.Figures; f.HostBytes != 1056763576<<10 || f.LimitBytes != 16<<30 || f.FreeBytes != 6<<30+500000000 ||
		f.GPUs != 1 || f.GPUFreeBytes != 68_000_000_000 {
		t.Errorf("%+v", f)
	}
	if c := find(t, r, "cgroup"); c.State != Works || !strings.Contains(c.Found, "10 GiB charged of 16 GiB") {
		t.Errorf("%+v", c)
	}
	if c := find(t, r, "Python"); c.State != Absent || c.Hint == "" {
		t.Errorf("%+v", c)
	}
	if c := find(t, r, "memory pressure"); c.State != Works || !strings.Contains(c.Found, "1.5 %") {
		t.Errorf("%+v", c)
	}
	if c := find(t, r, "AMD and Intel GPUs"); c.State != Works || !strings.Contains(c.Found, "MI250X") {
		t.Errorf("%+v", c)
	}
	if c := find(t, r, "attach"); os.Geteuid() != 0 && c.State != Absent {
		t.Errorf("%+v", c)
	}
	if r.Suggestions.BatchSize != 64 || r.Broken() {
		t.Errorf("%+v, broken %v", r.Suggestions, r.Broken())
	}
}

// Where nothing is readable every check says so, and what memgauge needs is broken.
func TestNothingThere(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := Machine{Root: root, Home: filepath.Join(file, "memgauge"), Python: "no-such-python"}.Examine(t.Context())
	if c := find(t, r, "sessions"); c.State != Broken || !strings.Contains(c.Found, "not a directory") || c.Hint == "" {
		t.Errorf("%+v", c)
	}
	if !r.Broken() {
		t.Error("nothing is broken")
	}
	for _, c := range r.Checks {
		if c.Found == "" {
			t.Errorf("%s says nothing", c.Name)
		}
	}
}

// A Python that prints, fails or isn't one.
func TestPythons(t *testing.T) {
	dir := t.TempDir()
	script := func(text string) string {
		path := filepath.Join(dir, "python")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{
		`echo noise; echo '{"version": "3.12.1", "implementation": "cpython", "torch": "2.4.0", "cuda": "12.1", ` +
			`"available": true, "devices": 8}'`: "works",
		`echo '{"version": "3.7.1", "implementation": "cpython", "error": "ModuleNotFoundError: x"}'`: "limited",
		`echo '{"version": "3.10.1", "implementation": "pypy"}'`:                                      "limited",
		`echo broken >&2; exit 3`: "broken",
		`echo hello`:              "broken",
	} {
		m := Machine{Python: script(text)}
		checks := m.python(t.Context())
		if checks[0].State != want {
			t.Errorf("%s: %+v", text, checks)
		}
	}
}

// TestWorkingDirectoryIsNoLibrary: the directory that doctor is run in may be anybody's, so nothing is imported there.
func TestWorkingDirectoryIsNoLibrary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"json", "sys", "importlib", "torch", "platform"} {
		text := "open(" + strconv.Quote(filepath.Join(dir, "ran")) + ", 'w')\n"
		if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	path, err := exec.LookPath("python3")
	if err != nil {
		env.Missing(t, "python3", err.Error())
	}
	if _, err := askPython(t.Context(), path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("ran"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("code of the working directory ran: %v", err)
	}
}
