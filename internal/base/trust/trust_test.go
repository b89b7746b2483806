package trust

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

const stranger = 12345 // a uid of nobody here

// place makes a directory with exactly that mode.
func place(t *testing.T, mode os.FileMode, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// open is a directory for a test that others can reach.
func open(t *testing.T) string {
	dir := t.TempDir()
	place(t, 0o755, filepath.Dir(dir))
	return place(t, 0o755, dir)
}

func TestPath(t *testing.T) {
	base := open(t)
	check := func(path string, level Level, good bool) {
		t.Helper()
		if err := Path(path, level); (err == nil) != good || err != nil && !errors.Is(err, ErrOthers) {
			t.Errorf("%s at level %d: %v", path, level, err)
		}
	}
	check(filepath.Join(base, "not", "there"), Code, true)
	shared := place(t, 0o775, base, "group")
	check(filepath.Join(place(t, 0o755, shared, "x")), Code, false)
	check(filepath.Join(shared, "x"), Data, true)
	everybodys := place(t, 0o777, base, "all")
	check(place(t, 0o700, everybodys, "x"), Data, false)
	check(place(t, 0o700, place(t, os.ModeSticky|0o777, base, "tmp"), "x"), Code, true)
	private := place(t, 0o700, base, "private")
	check(place(t, 0o775, place(t, 0o775, private, "state"), "x"), Code, true)

	link := filepath.Join(base, "link")
	if err := os.Symlink(filepath.Join(everybodys, "x"), link); err != nil {
		t.Fatal(err)
	}
	check(filepath.Join(link, "agent"), Code, false)
	// a private directory on the way to a link doesn't make what it leads to private
	hidden := filepath.Join(private, "link")
	if err := os.Symlink(shared, hidden); err != nil {
		t.Fatal(err)
	}
	check(filepath.Join(hidden, "x"), Code, false)
	// ".." in a link's target is the parent of what a link before it leads to
	aside, back := filepath.Join(base, "aside"), filepath.Join(base, "back")
	place(t, 0o755, base, "x")
	err := errors.Join(os.Symlink(filepath.Join(everybodys, "x"), aside), os.Symlink("aside/../x", back))
	if err != nil {
		t.Fatal(err)
	}
	check(back, Data, false)
	loop := filepath.Join(base, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if Path(loop, Data) == nil {
		t.Error("a loop was followed to its end")
	}
}

func TestPathOfStrangers(t *testing.T) {
	env.Root(t)
	base := open(t)
	theirs := place(t, 0o755, base, "theirs")
	inside := place(t, 0o700, theirs, "x")
	if err := os.Chown(theirs, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{theirs, inside, filepath.Join(theirs, "new"), filepath.Join(link, "new")} {
		if err := Path(path, Data); !errors.Is(err, ErrOthers) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A place for new files may be root's, as /tmp is; one that others can exchange may not.
func TestPlace(t *testing.T) {
	env.Root(t)
	base := open(t)
	sticky, everybodys := place(t, os.ModeSticky|0o777, base, "tmp"), place(t, 0o777, base, "all")
	theirs := place(t, 0o755, base, "theirs")
	if err := os.Chown(theirs, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	env.As(t, stranger+1, func() {
		own := filepath.Join(sticky, "own")
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Error(err)
		}
		for path, good := range map[string]bool{sticky: true, own: true, everybodys: false, theirs: false,
			filepath.Join(everybodys, "x"): false} {
			if err := Place(path, Code); (err == nil) != good || err != nil && !errors.Is(err, ErrOthers) {
				t.Errorf("%s: %v", path, err)
			}
		}
		if err := Path(sticky, Code); !errors.Is(err, ErrOthers) {
			t.Errorf("root's directory passed for our own: %v", err)
		}
	})
}

func TestTree(t *testing.T) {
	dir := place(t, 0o700, t.TempDir(), "tree")
	file := func(name string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	expected := func(path string, isDir bool) bool { return path == "a" && !isDir || path == "sub" && isDir }
	check := func(good bool) {
		t.Helper()
		if err := Tree(dir, expected); (err == nil) != good || err != nil && !errors.Is(err, ErrOthers) {
			t.Error(err)
		}
	}
	file("a", 0o644)
	place(t, 0o755, dir, "sub")
	check(true)
	os.Remove(file("b", 0o600))
	planted := file("b", 0o600)
	check(false)
	os.Remove(planted)
	file("a", 0o660)
	check(false)
	os.Remove(filepath.Join(dir, "a"))
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	check(false)
}
