package hub

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/test/env"
)

// names are all that a hub has in its directory, and those that earlier versions made.
var names = []string{addrFile, addrFile + ".new", lockFile, nodeFile, nodeFile + ".new", journalFile, joinFile,
	joinFile + ".new", askFile, askFile + ".new", "cert.pem", "key.pem", "bus", "bus/jetstream",
	"bus/jetstream/" + "$G"}

// tried opens a hub in a directory and closes it again.
func tried(t *testing.T, dir string, shared bool) error {
	t.Helper()
	h, err := Open(Options{Dir: dir, Listen: "127.0.0.1:0", MaxDisk: 64 << 20, SharedSecrets: shared,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err == nil {
		h.Close()
	}
	return err
}

// TestPreparedDirectory: whatever lies in place of one of a hub's files, nothing outside of its directory is written or
// cut, nothing is waited for, and no secret gets out.
func TestPreparedDirectory(t *testing.T) {
	const precious = "precious"
	for _, name := range names {
		outside := t.TempDir()
		victim := filepath.Join(outside, "victim")
		missing := filepath.Join(outside, "missing")
		folder := filepath.Join(outside, "folder")
		for kind, make := range map[string]func(path string) error{
			"link":          func(path string) error { return os.Symlink(victim, path) },
			"dangling link": func(path string) error { return os.Symlink(missing, path) },
			"link to a directory": func(path string) error {
				return os.Symlink(folder, path)
			},
			"hard link":  func(path string) error { return os.Link(victim, path) },
			"named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"directory":  func(path string) error { return os.Mkdir(path, 0o700) },
		} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			err := errors.Join(os.WriteFile(victim, []byte(precious), 0o600), os.MkdirAll(folder, 0o700),
				os.MkdirAll(filepath.Dir(path), 0o700), make(path))
			if err != nil {
				t.Fatal(err)
			}
			err = tried(t, dir, false)
			t.Logf("%s as a %s: %v", name, kind, err)
			if text, err := os.ReadFile(victim); err != nil || string(text) != precious {
				t.Errorf("%s as a %s: the user's file is %q, %v", name, kind, text, err)
			}
			if _, err := os.Lstat(missing); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s as a %s: a file was made outside: %v", name, kind, err)
			}
			if list, err := os.ReadDir(folder); err != nil || len(list) > 0 {
				t.Errorf("%s as a %s: files were made outside: %v, %v", name, kind, list, err)
			}
			link := strings.Contains(kind, "link") && kind != "hard link"
			if link && !strings.HasSuffix(name, ".new") && !errors.Is(err, rootdir.ErrRefused) {
				t.Errorf("%s as a %s: %v", name, kind, err)
			}
		}
	}
}

// reachable is a directory that others can reach: in a private one, modes do no harm.
func reachable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDirectoryOfOthers: where somebody else says what lies in the directory, a hub does not start.
func TestDirectoryOfOthers(t *testing.T) {
	refused := func(what, dir string) {
		t.Helper()
		if err := tried(t, dir, false); !errors.Is(err, trust.ErrOthers) || remedy.Of(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
		if list, err := os.ReadDir(dir); err == nil && len(list) > 0 {
			t.Errorf("%s: it has made %v", what, list)
		}
	}
	base := reachable(t)
	for name, mode := range map[string]os.FileMode{"everybody's": 0o777, "a group's": 0o770} {
		parent := filepath.Join(base, name)
		if err := errors.Join(os.Mkdir(parent, 0o700), os.Chmod(parent, mode)); err != nil {
			t.Fatal(err)
		}
		refused("in "+name, parent)
		refused("below "+name, filepath.Join(parent, "hub"))
	}
	env.Root(t)
	users := filepath.Join(base, "user")
	if err := errors.Join(os.Mkdir(users, 0o755), os.Chown(users, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	refused("root in a user's", users)
	refused("root below a user's", filepath.Join(users, "hub"))
	link := filepath.Join(base, "link")
	if err := errors.Join(os.Symlink(filepath.Join(base, "new"), link), os.Lchown(link, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	refused("root through a user's link", link)
}

// TestSharedSecrets: a cluster gives all in a volume to the pod's group (fsGroup) before each start. With SharedSecrets
// a hub starts there, and again.
func TestSharedSecrets(t *testing.T) {
	volume := filepath.Join(reachable(t), "data")
	if err := errors.Join(os.Mkdir(volume, 0o770), os.Chmod(volume, 0o770|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(volume, "hub")
	if err := tried(t, dir, false); !errors.Is(err, trust.ErrOthers) {
		t.Errorf("without the flag: %v", err)
	}
	if err := tried(t, dir, true); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(JoinToken(dir))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error { // what kubelet does
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Chmod(path, 0o770|os.ModeSetgid)
		}
		return os.Chmod(path, 0o660)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tried(t, dir, false); err == nil {
		t.Error("without the flag it started")
	}
	if err := tried(t, dir, true); err != nil {
		t.Errorf("the second start: %v", err)
	}
	if again, err := os.ReadFile(JoinToken(dir)); err != nil || string(again) != string(token) {
		t.Errorf("the token is another one, %v", err)
	}
	if _, err := bus.ReadToken(JoinToken(dir), true); err != nil {
		t.Error(err)
	}
	_, err = bus.ReadToken(JoinToken(dir), false)
	if err == nil || !strings.Contains(remedy.Of(err), "--shared-secrets") {
		t.Errorf("a shared token, without the flag: %v", err)
	}
}
