package wheel

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// conftest and measured are what a project has that uses the plugin.
const (
	conftest = "pytest_plugins = ['memgauge.integrations.pytest']\n"
	measured = `import pytest
kept = []
@pytest.mark.limit_peak("1 GiB")
def test_small(): kept.append(bytearray(1 << 20))
`
)

// TestPluginLoadsOnce: pytest loads the plugin of an installed package by itself, and the ways that docs/pytest.md
// shows name it once more. Here a package is installed by hand, with the entry points of a wheel.
func TestPluginLoadsOnce(t *testing.T) {
	python := env.Frameworks(t).Path
	site := t.TempDir()
	link(t, filepath.Join(env.Checkout(), "scripts/pack/entry_points.txt"), must(t, site, "memgauge-1.dist-info"))
	err := os.WriteFile(filepath.Join(site, "memgauge-1.dist-info/METADATA"),
		[]byte("Metadata-Version: 2.1\nName: memgauge\nVersion: 1\n"), 0o644)
	if err == nil {
		err = os.Symlink(filepath.Join(env.Checkout(), "python/memgauge"), filepath.Join(site, "memgauge"))
	}
	if err != nil {
		t.Fatal(err)
	}
	loadPlugin(t, python, append(os.Environ(), "PYTHONPATH="+site, "PYTHONDONTWRITEBYTECODE=1"))
}

// loadPlugin uses the plugin in each way.
func loadPlugin(t *testing.T, python string, environment []string) {
	t.Helper()
	for _, c := range []struct {
		name, conftest string
		args           []string
		off            bool
	}{
		{name: "by itself"},
		{name: "-p", args: []string{"-p", "memgauge.integrations.pytest"}},
		{name: "conftest", conftest: conftest},
		{name: "all ways", conftest: conftest, args: []string{"-p", "memgauge.integrations.pytest"}},
		{name: "switched off", args: []string{"-p", "no:memgauge.integrations.pytest"}, off: true},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"conftest.py": c.conftest, "test_small.py": measured} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		args := append([]string{"-m", "pytest", "-q", "-p", "no:cacheprovider"}, c.args...)
		if !c.off {
			args = append(args, "--memgauge")
		}
		cmd := exec.CommandContext(t.Context(), python, args...)
		cmd.Dir, cmd.Env = dir, environment
		out, err := cmd.CombinedOutput()
		if shown := strings.Contains(string(out), "memgauge: the heaviest of 1 tests"); err != nil || shown == c.off {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}

// must makes a directory in another.
func must(t *testing.T, dir, name string) string {
	t.Helper()
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
