package rootdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/test/env"
)

// yard is a directory of ours beside one of a user's, which must never change.
type yard struct {
	*Dir
	at, victim string
}

const precious = "precious"

func newYard(t *testing.T) *yard {
	t.Helper()
	base := t.TempDir()
	y := &yard{at: filepath.Join(base, "ours"), victim: filepath.Join(base, "theirs")}
	for _, dir := range []string{y.at, filepath.Join(y.victim, "sub")} {
		must(t, os.MkdirAll(dir, 0o700))
	}
	for _, name := range []string{"a", "sub/b"} {
		must(t, os.WriteFile(filepath.Join(y.victim, name), []byte(precious), 0o600))
	}
	var err error
	y.Dir, err = Open(y.at)
	must(t, err)
	t.Cleanup(func() { y.Dir.Close() })
	return y
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// intact checks that the user's directory is as it was.
func (y *yard) intact(t *testing.T) {
	t.Helper()
	for _, name := range []string{"a", "sub/b"} {
		text, err := os.ReadFile(filepath.Join(y.victim, name))
		if err != nil || string(text) != precious {
			t.Errorf("%s of the user: %q, %v", name, text, err)
		}
	}
	for dir, want := range map[string]int{y.victim: 2, filepath.Join(y.victim, "sub"): 1} {
		if list, err := os.ReadDir(dir); err != nil || len(list) != want {
			t.Errorf("%s has %v, %v", dir, list, err)
		}
	}
}

// actions are all that reads, writes or removes at a name.
func (y *yard) actions(t *testing.T) map[string]func(name string) error {
	file := func(f *os.File, err error) error {
		if err == nil {
			f.Close()
		}
		return err
	}
	stage := filepath.Join(y.at, "stage")
	must(t, os.MkdirAll(stage, 0o700))
	from, err := y.Sub("stage")
	must(t, err)
	t.Cleanup(func() { from.Close() })
	return map[string]func(name string) error{
		"open":    func(n string) error { return file(y.Open(n)) },
		"read":    func(n string) error { _, err := y.ReadFile(n, 100); return err },
		"create":  func(n string) error { return file(y.Create(n)) },
		"edit":    func(n string) error { return file(y.Edit(n)) },
		"append":  func(n string) error { return file(y.Append(n)) },
		"replace": func(n string) error { return y.ReplaceText(n, []byte("new")) },
		"make":    func(n string) error { return y.MakeText(n, []byte("new")) },
		"unlink":  y.Unlink,
		"put": func(n string) error {
			must(t, os.WriteFile(filepath.Join(stage, "f"), []byte("new"), 0o600))
			return y.Put(from, "f", n)
		},
	}
}

func TestNoLinkIsFollowed(t *testing.T) {
	y := newYard(t)
	must(t, os.Symlink(y.victim, filepath.Join(y.at, "dir")))
	must(t, os.Symlink("../theirs", filepath.Join(y.at, "relative")))
	must(t, os.Symlink(filepath.Join(y.victim, "a"), filepath.Join(y.at, "file")))
	must(t, os.Symlink(filepath.Join(y.victim, "new"), filepath.Join(y.at, "dangling")))
	must(t, os.Mkdir(filepath.Join(y.at, "inside"), 0o700))
	must(t, os.Symlink("inside", filepath.Join(y.at, "within"))) // os.Root would follow this one
	names := []string{"dir", "dir/a", "dir/new", "dir/sub/b", "relative/a", "file", "dangling", "within/x"}
	for what, act := range y.actions(t) {
		for _, name := range names {
			if err := act(name); err == nil {
				t.Errorf("%s %s worked", what, name)
			} else if !errors.Is(err, ErrRefused) && !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
	}
	for _, name := range []string{"dir/x", "within/x", "relative/sub"} {
		for what, act := range map[string]func(string) error{"mkdir": y.Mkdir, "mkdirall": y.MkdirAll,
			"remove": y.Remove, "removeall": y.RemoveAll,
			"sub": func(n string) error { _, err := y.Sub(n); return err }} {
			if err := act(name); !errors.Is(err, ErrRefused) {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
	}
	if err := y.MkdirAll("dir"); !errors.Is(err, ErrRefused) {
		t.Errorf("a link passed for a directory: %v", err)
	}
	y.intact(t)
	must(t, y.RemoveAll("dir")) // the link itself
	if _, err := os.Lstat(filepath.Join(y.at, "dir")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link is still there: %v", err)
	}
	y.intact(t)
}

func TestNamesStayBelow(t *testing.T) {
	y := newYard(t)
	for what, act := range y.actions(t) {
		for _, name := range []string{"../theirs/a", "/etc/passwd", "", ".", "..", "stage/../../theirs/a", "a/"} {
			if err := act(name); !errors.Is(err, ErrRefused) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	y.intact(t)
}

func TestOtherKindsAreRefused(t *testing.T) {
	y := newYard(t)
	must(t, syscall.Mkfifo(filepath.Join(y.at, "pipe"), 0o600))
	must(t, os.Mkdir(filepath.Join(y.at, "directory"), 0o700))
	for what, act := range y.actions(t) {
		for _, name := range []string{"pipe", "directory"} {
			if err := act(name); !errors.Is(err, ErrRefused) && !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
	}
}

// A hard link is another name of somebody's file: it may be replaced or read, but not written through.
func TestHardLinks(t *testing.T) {
	y := newYard(t)
	must(t, os.Link(filepath.Join(y.victim, "a"), filepath.Join(y.at, "hard")))
	for what, act := range map[string]func(string) (*os.File, error){"edit": y.Edit, "append": y.Append} {
		if f, err := act("hard"); !errors.Is(err, ErrRefused) {
			f.Close()
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, y.ReplaceText("hard", []byte("new")))
	if text, err := y.ReadFile("hard", 10); err != nil || string(text) != "new" {
		t.Errorf("replaced: %q, %v", text, err)
	}
	y.intact(t)
}

func TestRemoveAll(t *testing.T) {
	y := newYard(t)
	must(t, os.MkdirAll(filepath.Join(y.at, "tree/x/y/z"), 0o700))
	must(t, os.WriteFile(filepath.Join(y.at, "tree/x/f"), nil, 0o400))
	must(t, os.Symlink(y.victim, filepath.Join(y.at, "tree/x/y/link")))
	must(t, syscall.Mkfifo(filepath.Join(y.at, "tree/pipe"), 0o600))
	must(t, y.RemoveAll("tree"))
	must(t, y.RemoveAll("tree"))
	must(t, y.RemoveAll("none/tree"))
	if list, err := y.List(); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	y.intact(t)
}

// swap exchanges a directory with a link to the user's as fast as it can, until stop.
func (y *yard) swap(t *testing.T, name string) (stop func()) {
	t.Helper()
	must(t, os.Symlink(y.victim, filepath.Join(y.at, "aside")))
	return env.Exchange(filepath.Join(y.at, name), filepath.Join(y.at, "aside"))
}

// swaps is how often each of the races below is run: a walk that followed links lost it within some tens.
const swaps = 300

func TestALinkComesWhileATreeIsRemoved(t *testing.T) {
	y := newYard(t)
	stop := y.swap(t, "tree/x")
	for range swaps {
		_ = os.MkdirAll(filepath.Join(y.at, "tree/x/sub"), 0o700)
		_ = os.WriteFile(filepath.Join(y.at, "tree/x/mine"), nil, 0o600)
		_ = y.RemoveAll("tree")
		_ = os.Remove(filepath.Join(y.victim, "mine")) // this test's own writing may have gone through the link
	}
	stop()
	y.intact(t)
}

func TestALinkComesWhileAFileIsPut(t *testing.T) {
	y := newYard(t)
	from, err := Temp(t.TempDir(), "stage-")
	must(t, err)
	defer from.Discard()
	must(t, y.MkdirAll("job"))
	stop := y.swap(t, "job")
	kept := 0
	for range swaps {
		if err := from.MakeText("f", []byte("new")); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		if err := y.Put(from, "f", "job/a"); err == nil {
			kept++
		} else if !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
		if err := y.Unlink("job/a"); err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	stop()
	t.Logf("%d of %d were put", kept, swaps)
	y.intact(t)
}

func TestReplace(t *testing.T) {
	y := newYard(t)
	old := syscall.Umask(0o777)
	err := errors.Join(y.ReplaceText("f", []byte("one")), y.Mkdir("d"))
	syscall.Umask(old)
	must(t, err)
	for name, mode := range map[string]fs.FileMode{"f": 0o600, "d": 0o700} {
		if i, err := y.Lstat(name); err != nil || i.Mode.Perm() != mode {
			t.Errorf("%s: %v, %v", name, i.Mode, err)
		}
	}
	wrong := errors.New("wrong")
	err = y.Replace("f", func(f *os.File) error { return errors.Join(f.Truncate(5), wrong) })
	if !errors.Is(err, wrong) {
		t.Errorf("failure: %v", err)
	}
	if text, err := y.ReadFile("f", 10); err != nil || string(text) != "one" {
		t.Errorf("after a failure: %q, %v", text, err)
	}
	if _, err := y.ReadFile("f", 2); err == nil {
		t.Error("more was read than allowed")
	}
	if list, err := y.List(); err != nil || len(list) != 2 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestTemp(t *testing.T) {
	y := newYard(t)
	d, err := Temp(y.at, "temp-")
	must(t, err)
	must(t, d.MakeText("f", nil))
	must(t, os.Symlink(y.victim, filepath.Join(d.Path(), "link")))
	must(t, d.Discard())
	if list, err := y.List(); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	y.intact(t)
	f, err := Anonymous("memgauge-")
	must(t, err)
	must(t, f.Close())
}

func TestOwn(t *testing.T) {
	y := newYard(t)
	d, err := Own(filepath.Join(y.at, "new/deep"), trust.Code)
	must(t, err)
	must(t, d.Close())
	open := filepath.Join(y.at, "open")
	must(t, os.Mkdir(open, 0o700))
	must(t, os.Chmod(open, 0o777))
	for at, n := y.at, 0; n < 3; at, n = filepath.Dir(at), n+1 { // in a private one it would do no harm
		must(t, os.Chmod(at, 0o755))
	}
	if _, err := Own(filepath.Join(open, "x"), trust.Data); !errors.Is(err, trust.ErrOthers) {
		t.Errorf("below a directory of everybody's: %v", err)
	}
	if _, err := os.Stat(filepath.Join(open, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made before it was refused: %v", err)
	}
}

// Root reaches nothing through another user's link, wherever on the path that stands.
func TestRootFollowsNoForeignLink(t *testing.T) {
	env.Root(t)
	y := newYard(t)
	link := filepath.Join(y.at, "link")
	must(t, os.Symlink(y.victim, link))
	for _, path := range []string{link, filepath.Join(link, "sub")} {
		d, err := Open(path) // root's own
		must(t, err)
		must(t, d.Close())
	}
	must(t, os.Lchown(link, 12345, 12345))
	for _, path := range []string{link, filepath.Join(link, "sub")} {
		if _, err := Open(path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, _, err := Named(link); !errors.Is(err, ErrForeign) {
		t.Errorf("named: %v", err)
	}
	if err := ReplaceText(filepath.Join(link, "a"), []byte("new")); !errors.Is(err, ErrForeign) {
		t.Errorf("replace: %v", err)
	}
	if err := RemoveAll(filepath.Join(link, "sub")); !errors.Is(err, ErrForeign) {
		t.Errorf("remove: %v", err)
	}
	y.intact(t)
}

// A file of another user's is not written in place, and a tree with one is not given to code that writes by path.
func TestFilesOfOthers(t *testing.T) {
	env.Root(t)
	y := newYard(t)
	must(t, y.Check(trust.Code))
	must(t, y.MakeText("f", nil))
	must(t, os.Chown(filepath.Join(y.at, "f"), 12345, 12345))
	if _, err := y.Edit("f"); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if err := y.Check(trust.Code); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

func TestPathsOfProc(t *testing.T) {
	y := newYard(t)
	d, err := Open(y.FD())
	must(t, err)
	defer d.Close()
	must(t, d.MakeText("f", nil))
	if _, err := os.Stat(filepath.Join(y.at, "f")); err != nil {
		t.Error(err)
	}
}

// A user's file is written whatever bytes its name has; and what is none is not waited for.
func TestNamesOfUsers(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.MakeText("b\xff\xfe.py", []byte("x")); err != nil {
		t.Error(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := OpenNamed(fifo); err == nil {
		f.Close()
		t.Error("a pipe was opened")
	}
}
