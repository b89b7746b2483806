package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/test/env"
)

const stranger = 12345 // a uid of nobody here

func installed(t *testing.T) (home, dir string) {
	t.Helper()
	home = t.TempDir()
	dir, err := Install(home)
	if err != nil {
		t.Fatal(err)
	}
	return home, dir
}

// TestInstallReplacesWhatIsPlanted: anything that Python or the linker could take for ours is gone after the next
// install.
func TestInstallReplacesWhatIsPlanted(t *testing.T) {
	write := func(t *testing.T, path string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte("evil"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, plant := range map[string]func(t *testing.T, dir string){
		"module": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "lib/memgauge/json.py")) },
		"extension": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "boot/os.cpython-311-x86_64-linux-gnu.so"))
		},
		"package":    func(t *testing.T, dir string) { write(t, filepath.Join(dir, "boot/sitecustomize/__init__.py")) },
		"sourceless": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "boot/sitecustomize.pyc")) },
		"folder":     func(t *testing.T, dir string) { write(t, filepath.Join(dir, "lib/memgauge/json/__init__.py")) },
		"cache": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "lib/__pycache__/json.cpython-311.pyc"))
		},
		"link": func(t *testing.T, dir string) {
			elsewhere := t.TempDir()
			write(t, filepath.Join(elsewhere, "sitecustomize.cpython-311.pyc"))
			if err := os.Symlink(elsewhere, filepath.Join(dir, "boot/__pycache__")); err != nil {
				t.Fatal(err)
			}
		},
		"writable": func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "lib/memgauge"), 0o770); err != nil {
				t.Fatal(err)
			}
		},
		"bytecode of a stranger": func(t *testing.T, dir string) {
			env.Root(t)
			path := filepath.Join(dir, "boot/__pycache__/sitecustomize.cpython-311.pyc")
			write(t, path)
			if err := os.Chown(path, stranger, stranger); err != nil {
				t.Fatal(err)
			}
		},
		"compiled for attaches by a stranger": func(t *testing.T, dir string) {
			env.Root(t)
			path := filepath.Join(dir, "attach-30b07f0-a70d0d0a-0")
			write(t, path)
			if err := os.Chown(path, stranger, stranger); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, dir := installed(t)
			plant(t, dir)
			if again, err := Install(home); err != nil || again != dir {
				t.Fatalf("%s, %v", again, err)
			}
			checkSame(t, dir)
			if err := trust.Tree(dir, expected); err != nil {
				t.Error(err)
			}
			if left, _ := filepath.Glob(filepath.Join(home, "agent", ".new-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestInstallKeepsCaches(t *testing.T) {
	home, dir := installed(t)
	for _, name := range []string{"boot/__pycache__/sitecustomize.cpython-38.pyc",
		"lib/memgauge/__pycache__/__init__.cpython-313t.opt-1.pyc",
		"lib/memgauge/_agent/__pycache__/_spec.pypy310-pp73.pyc",
		"lib/memgauge/_agent/record/__pycache__/ring.cpython-312.pyc.140231", "attach-30b07f0-a70d0d0a-0",
		"attach-30b07f0-a70d0d0a-0.77"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if !intact(dir) {
		t.Errorf("a Python's own cache counts as damage: %v", trust.Tree(dir, expected))
	}
	if _, err := Install(home); err != nil {
		t.Fatal(err)
	}
}

func TestInstallRefusesAPlaceOfOthers(t *testing.T) {
	home := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(home), 0o755), os.Chmod(home, 0o775)); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(home); !errors.Is(err, trust.ErrOthers) {
		t.Errorf("into a directory that a group can write: %v", err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("something was made there: %v, %v", entries, err)
	}
}

func TestInstallRefusesAColon(t *testing.T) {
	_, err := Install(filepath.Join(t.TempDir(), "a:b"))
	if err == nil || !strings.Contains(err.Error(), "colon") || !strings.Contains(remedy.Of(err), "MEMGAUGE_HOME") {
		t.Errorf("%v, %q", err, remedy.Of(err))
	}
}

// TestInstallWhateverTheUmask: modes are ours, neither wider nor so narrow that nobody can use the files.
func TestInstallWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o777, 0o277} {
		base := t.TempDir()
		old := syscall.Umask(umask)
		_, err := Install(filepath.Join(base, "a", "b"))
		syscall.Umask(old)
		if err != nil {
			t.Errorf("umask %#o: %v", umask, err)
			continue
		}
		_ = filepath.WalkDir(filepath.Join(base, "a"), func(path string, d fs.DirEntry, _ error) error {
			info, err := d.Info()
			if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; err != nil ||
				info.Mode().Perm() != want {
				t.Errorf("umask %#o: %s has mode %v, %v", umask, path, info.Mode(), err)
			}
			return nil
		})
	}
}
