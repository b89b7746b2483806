package lake

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/test/env"
)

// theirs is a directory of a user's beside a lake; intact fails the test where it has changed.
func theirs(t *testing.T) (dir string, intact func()) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"thesis.tex", "sub/data", "all.parquet"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "sub"), 0o700),
			os.WriteFile(filepath.Join(dir, name), []byte("precious"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func() {
		t.Helper()
		for _, name := range []string{"thesis.tex", "sub/data", "all.parquet"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "precious" {
				t.Errorf("the user's %s: %q, %v", name, text, err)
			}
		}
		for at, want := range map[string]int{dir: 3, filepath.Join(dir, "sub"): 1} {
			if list, err := os.ReadDir(at); err != nil || len(list) != want {
				t.Errorf("the user's %s has %v, %v", at, list, err)
			}
		}
	}
}

// A writer of a lake from elsewhere refuses what leads out of it, by its name, before it removes anything.
func TestStageThatIsALink(t *testing.T) {
	victim, intact := theirs(t)
	for _, name := range []string{stageName, ".lock"} {
		for kind, make := range map[string]func(path string) error{
			"is a link":       func(path string) error { return os.Symlink(victim, path) },
			"is a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		} {
			dir := t.TempDir()
			if err := make(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			w, err := New(t.Context(), soon(dir))
			if err == nil {
				t.Errorf("%s %s: the lake was opened", name, kind)
				w.Close()
				continue
			}
			if !errors.Is(err, rootdir.ErrRefused) || !strings.Contains(err.Error(), name+" "+kind) {
				t.Errorf("%s %s: %v", name, kind, err)
			}
		}
	}
	intact()
}

// filled is a lake with rows of four hours.
func filled(t *testing.T) (dir string, w *Writer) {
	t.Helper()
	dir = t.TempDir()
	w = writer(t, soon(dir))
	t.Cleanup(func() { w.Close() })
	for k := range 20 {
		b := batch(t, 0, k)
		err := w.Append(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir, w
}

// hourDirs are the directories that hold a lake's files.
func hourDirs(t *testing.T, dir string) (dirs []string) {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".parquet") && !seen[filepath.Dir(path)] {
			seen[filepath.Dir(path)] = true
			dirs = append(dirs, filepath.Dir(path))
		}
		return err
	})
	if err != nil || len(dirs) == 0 {
		t.Fatalf("directories of %s: %v, %v", dir, dirs, err)
	}
	return dirs
}

// A partition that is a link to elsewhere is neither read nor merged nor given up: what it leads to is no part of the
// lake, even where it holds files of a lake's names.
func TestPartitionThatIsALink(t *testing.T) {
	victim, intact := theirs(t)
	for what, change := range map[string]func(o *Options){
		"merge":  func(*Options) {},
		"age":    func(o *Options) { o.MaxAge = time.Millisecond },
		"linger": func(o *Options) { o.Linger = 1 },
	} {
		dir, w := filled(t)
		change(&w.o)
		if what == "linger" { // what a merge has replaced waits to be removed
			if _, err := w.Maintain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		hour := hourDirs(t, dir)[0]
		aside := filepath.Join(t.TempDir(), "aside")
		if err := errors.Join(os.Rename(hour, aside), os.Symlink(aside, hour)); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadDir(aside)
		_, err := w.Maintain(t.Context())
		if !errors.Is(err, rootdir.ErrRefused) || !strings.Contains(err.Error(), filepath.Base(hour)) {
			t.Errorf("%s: %v", what, err)
		}
		if after, err := os.ReadDir(aside); err != nil || len(after) != len(before) {
			t.Errorf("%s: outside of the lake there were %v, now %v, %v", what, before, after, err)
		}
		if _, err := Open(t.Context(), Choice{Location: dir}); !errors.Is(err, rootdir.ErrRefused) ||
			!strings.Contains(err.Error(), filepath.Base(hour)) {
			t.Errorf("%s: opened for reading: %v", what, err)
		}
		if err := errors.Join(os.Remove(hour), os.Symlink(victim, hour)); err != nil {
			t.Fatal(err)
		}
		var appended error
		for k := range 20 { // rows of every hour, from another node
			b := batch(t, 1, k)
			appended = errors.Join(appended, w.Append(t.Context(), b))
		}
		if !errors.Is(appended, rootdir.ErrRefused) {
			t.Errorf("%s: rows for an hour that is a link: %v", what, appended)
		}
	}
	intact()
}

// A file that is a link is not read in place of one of the lake's.
func TestFileThatIsALink(t *testing.T) {
	dir, w := filled(t)
	files, err := filepath.Glob(filepath.Join(hourDirs(t, dir)[0], "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	aside := filepath.Join(t.TempDir(), "aside.parquet")
	if err := errors.Join(os.Rename(files[0], aside), os.Symlink(aside, files[0])); err != nil {
		t.Fatal(err)
	}
	_, openErr := Open(t.Context(), Choice{Location: dir})
	_, mergeErr := w.Maintain(t.Context())
	for what, err := range map[string]error{"open": openErr, "maintain": mergeErr} {
		if !errors.Is(err, rootdir.ErrRefused) || !strings.Contains(err.Error(), filepath.Base(files[0])) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(aside); err != nil {
		t.Error(err)
	}
}

// Whoever swaps a partition for a link while the lake is maintained gets nothing of the user's written or removed.
func TestPartitionSwappedMeanwhile(t *testing.T) {
	victim, intact := theirs(t)
	dir, w := filled(t)
	hour := hourDirs(t, dir)[0]
	aside := filepath.Join(dir, ".aside")
	if err := os.Symlink(victim, aside); err != nil {
		t.Fatal(err)
	}
	stop := env.Exchange(hour, aside)
	for k := range 20 {
		b := batch(t, 1, k)
		_ = w.Append(t.Context(), b)
		if k == 15 {
			w.o.MaxAge = time.Millisecond // and what is there is given up
		}
		if k%5 == 0 {
			_, _ = w.Maintain(t.Context())
		}
	}
	stop()
	intact()
}

// In a lake that another user owns, root's stage is root's: the owner's is refused.
func TestStageOfAnotherUser(t *testing.T) {
	env.Root(t)
	dir := t.TempDir()
	stage := filepath.Join(dir, stageName)
	if err := errors.Join(os.Mkdir(stage, 0o777), os.WriteFile(filepath.Join(stage, "kept"), nil, 0o600),
		os.Chown(dir, 12345, 12345), os.Chown(stage, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), soon(dir)); !errors.Is(err, rootdir.ErrRefused) ||
		!strings.Contains(err.Error(), stageName) {
		t.Errorf("opened: %v", err)
	}
	if _, err := os.Stat(filepath.Join(stage, "kept")); err != nil {
		t.Error(err)
	}
}
