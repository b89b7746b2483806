package session

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/test/env"
)

const nobody = 65534

func give(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.Lchown(p, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
}

func makeSession(t *testing.T) *Session {
	t.Helper()
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // the place where sessions are when that is somebody else's
	s, err := Create(Options{Command: []string{"python", "train.py"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// refused checks that a directory is not opened, for this reason.
func refused(t *testing.T, dir, why string) {
	t.Helper()
	if s, err := Open(dir); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("open %s: %+v, %v; want %q", dir, s, err, why)
	}
}

// Root that asks about another user's session lends him no rights: it is refused, with the hint that works.
func TestRootRefusesAnotherOwners(t *testing.T) {
	env.Root(t)
	s := makeSession(t)
	give(t, s.Dir)
	refused(t, s.Dir, "belongs to another user, uid 65534")
	if _, err := Open(s.Dir); !strings.Contains(remedy.Of(err), "sudo -u nobody") {
		t.Errorf("hint %q", remedy.Of(err))
	}
	give(t, filepath.Dir(s.Dir))
	if all, err := All(); len(all) > 0 {
		t.Errorf("the sessions of another user's home: %v, %v", all, err)
	}
}

// A directory of ours into which somebody else has put a file, or that is reached through somebody else's link.
func TestRootRefusesAnotherOwnersParts(t *testing.T) {
	env.Root(t)
	s := makeSession(t)
	give(t, filepath.Join(s.Dir, metaFile))
	refused(t, s.Dir, "session.json belongs to another user")

	s = makeSession(t)
	way := filepath.Join(t.TempDir(), "way")
	if err := os.Symlink(filepath.Dir(s.Dir), way); err != nil {
		t.Fatal(err)
	}
	through := filepath.Join(way, filepath.Base(s.Dir))
	if _, err := Open(through); err != nil {
		t.Errorf("through a link of our own: %v", err)
	}
	give(t, way)
	refused(t, through, "is a link that belongs to another user")
}

// A session that somebody handed over may unpack as links where we would write.
func TestLinksInASession(t *testing.T) {
	for _, name := range []string{metaFile, endFile, lockFile, dbFile, dbFile + ".wal", logFile, ringsDir, ctlDir} {
		s := makeSession(t)
		victim := filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(s.Dir, name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, path); err != nil {
			t.Fatal(err)
		}
		refused(t, s.Dir, name+" is a link")
		if _, err := s.TryLock(true); name == lockFile && err == nil {
			t.Error("the lock is taken through a link")
		}
	}
}

// A process that opens a named pipe waits for its writer for ever; a directory in place of the database is no better.
func TestOtherKindsInASession(t *testing.T) {
	for name, kind := range made {
		s := makeSession(t)
		path := filepath.Join(s.Dir, name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, s.Dir, name+" is a named pipe, where memgauge makes "+rootdir.Kind(kind))
		if kind == fs.ModeDir {
			continue
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		refused(t, s.Dir, name+" is a directory, where memgauge makes "+rootdir.Kind(kind))
	}
}

// A copied session.json may name any directory: its rings would be drained into the copy, and removed.
func TestRuntimeOfAnotherSession(t *testing.T) {
	home := t.TempDir()
	t.Setenv("MEMGAUGE_HOME", home)
	victim, err := Create(Options{Command: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Create(Options{Command: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Meta.Runtime, s.Meta.Dir = victim.Dir, DirID{}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(s.Dir)
	if err != nil || again.Rings() != filepath.Join(s.Dir, ringsDir) {
		t.Errorf("its rings are %s, %v", again.Rings(), err)
	}
}
