package check_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

func run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	var stdout, stderr bytes.Buffer
	code = cli.Main(append([]string{"check"}, args...), strings.NewReader(""),
		&stdout, &stderr)
	return stdout.String() + stderr.String(), code
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestFixKeepsTheFile: mode, owner and the ends of lines stay; where nothing is to be mended, the file is not touched.
func TestFixKeepsTheFile(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "a.py"), strings.ReplaceAll(training, "\n", "\r\n"), 0o754)
	const user = 12345
	if os.Geteuid() == 0 {
		if err := os.Chown(path, user, user); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := run(t, "--fix", path); code != 0 || !strings.Contains(out, "Mended 1 finding") {
		t.Fatalf("exit %d: %s", code, out)
	}
	want := strings.ReplaceAll(training, "append(loss)", "append(loss.detach())")
	if got := read(t, path); got != strings.ReplaceAll(want, "\n", "\r\n") {
		t.Errorf("it became %q", got)
	}
	before, err := os.Stat(path)
	if err != nil || before.Mode().Perm() != 0o754 {
		t.Errorf("mode %v, %v", before.Mode(), err)
	}
	if os.Geteuid() == 0 && before.Sys().(*syscall.Stat_t).Uid != user {
		t.Error("the file belongs to somebody else now")
	}
	run(t, "--fix", path)
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("written without need: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestFixAndLinks: a link that is met below a directory is not followed; one that is named stays one.
func TestFixAndLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	target, link := write(t, filepath.Join(other, "b.py"), training, 0o644), filepath.Join(dir, "a.py")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	run(t, "--fix", dir)
	if read(t, target) != training {
		t.Error("written through a link that nobody has named")
	}
	run(t, "--fix", link)
	if read(t, target) == training {
		t.Error("not mended through the link that was named")
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is none any more: %v, %v", st.Mode(), err)
	}
}

// TestBrokenFile: a file that does not parse is a finding with its line, and --fix leaves it alone.
func TestBrokenFile(t *testing.T) {
	text := training + "      x = 1\n"
	path := write(t, filepath.Join(t.TempDir(), "a.py"), text, 0o644)
	for _, args := range [][]string{{path}, {"--fix", path}, {"--select", "MG1", path}} {
		out, code := run(t, args...)
		if code != app.ExitFindings || !strings.Contains(out, "a.py:9:7: MG000 does not parse: ") {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
	if read(t, path) != text {
		t.Error("it was changed")
	}
}

// TestFixTellsWhatIsLeft at the lines of the file that it has written.
func TestFixTellsWhatIsLeft(t *testing.T) {
	text := "import torch\nimport matplotlib.pyplot as plt\nfor epoch in range(9):\n    fig = plt.figure()\n" +
		"    fig.savefig('a.png')\n    torch.cuda.empty_cache()\n    kept = [1,\n       2]\nxs = []\n" +
		"for x in loader:\n    loss = model(x)\n    loss.backward()\n    opt.step()\n    xs.append(model(x))\n"
	path := write(t, filepath.Join(t.TempDir(), "a.py"), text, 0o644)
	if out, _ := run(t, "--fix", path); !strings.Contains(out, "a.py:15:") || strings.Contains(out, "a.py:14:") {
		t.Errorf("%s\n%s", out, read(t, path))
	}
}
