package check_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli"
)

func pipe(t *testing.T, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	var stdout, stderr bytes.Buffer
	code = cli.Main(append([]string{"check"}, args...), strings.NewReader(in), &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// TestStandardInput: an editor sends a text under the name of its file, whose settings apply, and gets the mended text.
func TestStandardInput(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "src", "train.py")
	if out, _, code := pipe(t, training, "--stdin-filename", name, "-"); code != 3 || !strings.Contains(out,
		name+":6:5: MG103") {
		t.Errorf("exit %d: %s", code, out)
	}
	out, errs, code := pipe(t, training, "--fix", "--stdin-filename", name, "-")
	if code != 0 || out != strings.ReplaceAll(training, "append(loss)", "append(loss.detach())") ||
		!strings.Contains(errs, "Mended 1 finding") {
		t.Errorf("--fix: exit %d: %s%s", code, out, errs)
	}
	if out, _, code := pipe(t, training, "--diff", "-"); code != 0 || !strings.Contains(out,
		"+    losses.append(loss.detach())") {
		t.Errorf("--diff: exit %d: %s", code, out)
	}
	write(t, filepath.Join(dir, "pyproject.toml"), "[tool.memgauge.check]\nexclude = [\"src\"]\n", 0o600)
	if out, _, code := pipe(t, training, "--stdin-filename", name, "-"); code != 3 {
		t.Errorf("named and excluded: exit %d: %s", code, out)
	}
	if out, _, code := pipe(t, training, "--force-exclude", "--stdin-filename", name, "-"); code != 0 {
		t.Errorf("--force-exclude: exit %d: %s", code, out)
	}
	for _, wrong := range [][]string{{"-", dir}, {"--stdin-filename", "x.py", dir}} {
		if out, errs, code := pipe(t, "", wrong...); code != 2 {
			t.Errorf("%v: exit %d: %s%s", wrong, code, out, errs)
		}
	}
}

// TestExcludedByForce: a hook names files, and those that the project excludes stay out.
func TestExcludedByForce(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "old.py"), training, 0o600)
	write(t, filepath.Join(dir, "pyproject.toml"), "[tool.memgauge.check]\nexclude = [\"old.py\"]\n", 0o600)
	if out, code := run(t, path); code != 3 {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := run(t, "--force-exclude", path); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	write(t, filepath.Join(dir, "pyproject.toml"),
		"[tool.memgauge.check]\nexclude = [\"old.py\"]\nforce-exclude = true\n", 0o600)
	if out, code := run(t, path); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestPerFileIgnores of the command line are added to those of the settings.
func TestPerFileIgnores(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "train.py"), training, 0o600)
	if out, code := run(t, "--per-file-ignores", "train.py:MG103", dir); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := run(t, "--per-file-ignores", "other.py:MG103", dir); code != 3 {
		t.Errorf("exit %d: %s", code, out)
	}
	for _, wrong := range []string{"train.py", "train.py:MG999", ":MG103"} {
		if out, code := run(t, "--per-file-ignores", wrong, dir); code != 2 {
			t.Errorf("%s: exit %d: %s", wrong, code, out)
		}
	}
}

// TestBaseline: what is known is not told, though lines above come and go; what is new is.
func TestBaseline(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "train.py"), training, 0o600)
	known := filepath.Join(dir, "known.json")
	if out, code := run(t, "--write-baseline", known, dir); code != 0 || !strings.Contains(out,
		"1 finding in the baseline") {
		t.Fatalf("exit %d: %s", code, out)
	}
	write(t, path, "# a line more\n"+training, 0o600)
	if out, code := run(t, "--baseline", known, dir); code != 0 || !strings.Contains(out, "1 finding in the baseline") {
		t.Errorf("exit %d: %s", code, out)
	}
	write(t, path, training+strings.Replace(training, "import torch\n", "", 1), 0o600)
	if out, code := run(t, "--baseline", known, dir); code != 3 || !strings.Contains(out, "1 finding in 1 file") {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := run(t, "--baseline", filepath.Join(dir, "none.json"), dir); code != 2 {
		t.Errorf("no baseline: exit %d: %s", code, out)
	}
	write(t, known, "[1]", 0o600)
	if out, code := run(t, "--baseline", known, dir); code != 2 {
		t.Errorf("a wrong baseline: exit %d: %s", code, out)
	}
}

// TestMistakesOfSettings: what can't be meant in the settings is a mistake like one on the command line, and so is a
// path that is not there.
func TestMistakesOfSettings(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "train.py"), training, 0o600)
	for _, text := range []string{"selct = []", `select = ["MG999"]`, `per-file-ignores = { "a" = ["MG999"] }`,
		"exclude = 3", "= ["} {
		write(t, filepath.Join(dir, "pyproject.toml"), "[tool.memgauge.check]\n"+text+"\n", 0o600)
		if out, code := run(t, dir); code != 2 {
			t.Errorf("%s: exit %d: %s", text, code, out)
		}
	}
	if out, code := run(t, filepath.Join(dir, "none")); code != 2 {
		t.Errorf("no such path: exit %d: %s", code, out)
	}
}

// TestClosedDirectory: a directory that may not be read is told, and the others are checked.
func TestClosedDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read every directory")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "train.py"), training, 0o600)
	if err := os.Mkdir(filepath.Join(dir, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	if out, code := run(t, dir); code != 3 || !strings.Contains(out, "closed:1:1: MG000") || !strings.Contains(out,
		"MG103") {
		t.Errorf("exit %d: %s", code, out)
	}
}
