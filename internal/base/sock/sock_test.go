package sock

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/test/env"
)

// A path may be longer than the 108 bytes that the kernel takes.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
		accepted <- err
	}()
	c, err := Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if pid, err := Peer(c); err != nil || pid != os.Getpid() {
		t.Errorf("peer %d, %v", pid, err)
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := Dial(context.Background(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nobody there: %v", err)
	}
}

// listenAs makes a socket on which another user listens.
func listenAs(t *testing.T, uid int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	raw, err := l.(*net.UnixListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	env.As(t, uid, func() {
		err := raw.Control(func(fd uintptr) {
			if err := unix.Listen(int(fd), 1); err != nil { // SO_PEERCRED tells of the last who called it (unix(7))
				t.Error(err)
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	return path
}

// Root asks nobody but itself for what it shows as its own: only the agents of programs are other users'.
func TestRootRefusesAnothersSocket(t *testing.T) {
	env.Root(t)
	path := listenAs(t, 12345)
	if c, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, %v", c, err)
	}
	c, err := DialProgram(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestHandedOverIsClosed: a listener that was handed over closes without the path, which belongs to who made it.
func TestHandedOverIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f, err := Hand(path)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(f.Fd())) // Inherit closes it
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	l, err := Inherit(uintptr(fd))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
