package session

import (
	"errors"
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

// open is a directory that others can enter, and theirs is one in it that belongs to somebody else.
func open(t *testing.T) (dir, theirs string) {
	t.Helper()
	env.Root(t)
	dir = t.TempDir()
	theirs = filepath.Join(dir, "theirs")
	err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), os.Mkdir(theirs, 0o755),
		os.Chown(theirs, stranger, stranger))
	if err != nil {
		t.Fatal(err)
	}
	return dir, theirs
}

// TestHomeOfAnotherUser: a place that variables name, and `sudo -E` keeps, is not used where somebody else can change
// it.
func TestHomeOfAnotherUser(t *testing.T) {
	dir, theirs := open(t)
	mine := filepath.Join(dir, "mine")
	check := func(home, xdg, user, want string) {
		t.Helper()
		t.Setenv("MEMGAUGE_HOME", home)
		t.Setenv("XDG_STATE_HOME", xdg)
		t.Setenv("HOME", user)
		got, err := Home()
		if err != nil || got != want {
			t.Errorf("%q, %q, %q give %s, %v; want %s", home, xdg, user, got, err, want)
		}
		if note := HomeNote(); (note == "") != (home == want) ||
			note != "" && !strings.HasSuffix(note, "sessions are in "+want) {
			t.Errorf("%q, %q, %q: the note is %q", home, xdg, user, note)
		}
	}
	below := "/.local/state/memgauge"
	check(mine, theirs, theirs, mine)
	check(theirs, mine, theirs, mine+"/memgauge")
	check(theirs+"/deep/er", "", mine, mine+below)
	check(theirs, "", theirs, "/root"+below)
}

// TestHomeOfAnotherUserIsTold: what is not found says that another place was searched than the user named.
func TestHomeOfAnotherUserIsTold(t *testing.T) {
	dir, theirs := open(t)
	t.Setenv("MEMGAUGE_HOME", theirs)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "mine"))
	_, _, last := unnamed()
	_, name := byName("x")
	_, pid := byPID(1 << 30)
	for _, err := range []error{last, name, pid} {
		want := theirs + " belongs to uid 12345"
		if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), "sessions are in "+filepath.Join(dir, "mine/memgauge")) {
			t.Errorf("%v", err)
		}
	}
}

// TestTakenDirectoryIsChecked: a directory that another user has put on the way while ours was made is seen.
func TestTakenDirectoryIsChecked(t *testing.T) {
	dir, theirs := open(t)
	for _, kind := range []string{"empty", "missing"} {
		way := filepath.Join(dir, kind)
		ours := filepath.Join(way, "way", "ours")
		meanwhile := func() {
			err := errors.Join(os.Mkdir(way, 0o755), os.Mkdir(filepath.Join(theirs, kind), 0o755))
			if kind == "empty" {
				err = errors.Join(err, os.Mkdir(filepath.Join(theirs, kind, "ours"), 0o700))
			}
			err = errors.Join(err, os.Symlink(filepath.Join(theirs, kind), filepath.Dir(ours)))
			if err == nil {
				err = os.Lchown(filepath.Dir(ours), stranger, stranger)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := makeDirWith(ours, func(dir string) error {
			meanwhile()
			return os.MkdirAll(dir, 0o700) // as one that follows what is there
		}); !errors.Is(err, trust.ErrOthers) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestSessionOfAnotherUserIsRefused(t *testing.T) {
	dir, theirs := open(t)
	t.Setenv("MEMGAUGE_HOME", filepath.Join(dir, "home"))
	for _, path := range []string{theirs, filepath.Join(theirs, "new"), filepath.Join(theirs, "a", "b")} {
		_, err := Create(Options{Dir: path})
		if !errors.Is(err, trust.ErrOthers) || remedy.Of(err) == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
	if entries, err := os.ReadDir(theirs); err != nil || len(entries) > 0 {
		t.Errorf("something was made there: %v, %v", entries, err)
	}
}

// TestSessionWhateverTheUmask: a directory that its own user can't enter would be useless, and one with wider modes not
// private.
func TestSessionWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o777} {
		dir := home(t)
		old := syscall.Umask(umask)
		s, err := Create(Options{Dir: filepath.Join(dir, "x", "s")})
		syscall.Umask(old)
		if err != nil {
			t.Errorf("umask %#o: %v", umask, err)
			continue
		}
		for path, want := range map[string]os.FileMode{s.Dir: 0o700, filepath.Dir(s.Dir): 0o700, s.Rings(): 0o700,
			s.path(metaFile): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("umask %#o: %s has mode %v, %v", umask, path, info.Mode(), err)
			}
		}
	}
}
