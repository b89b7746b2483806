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
