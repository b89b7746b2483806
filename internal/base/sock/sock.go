// Package sock owns the unix sockets between processes of one user: paths of any length, and who is at the other end;
// and how many connections strangers keep of a listener that all can reach.
// The protocols belong to other packages.
package sock

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// short is a path through the directory's descriptor: the kernel takes at most 108 bytes of path (unix(7)), and a
// session may lie deeper.
func short(dir *rootdir.Dir, name string) string { return dir.FD() + "/" + name }

// Listen makes a socket that admits only its own user. It replaces a stale one, so the caller must know that nobody
// else serves at this path. Close removes it.
func Listen(path string) (net.Listener, error) {
	dir, err := rootdir.Open(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	name := filepath.Base(path)
	_ = dir.Remove(name)
	l, err := net.Listen("unix", short(dir, name))
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // by the short path, which Close closes
	if err := dir.PrivateSocket(name); err != nil {
		l.Close()
		dir.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &guarded{Listener: l, dir: dir, name: name}, nil
}

// guarded is a listener that disconnects other users.
type guarded struct {
	net.Listener
	dir  *rootdir.Dir
	name string
	once sync.Once
}

func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if cred, err := credentials(c.(*net.UnixConn)); err == nil && (int(cred.Uid) == os.Geteuid() || cred.Uid == 0) {
			return c, nil
		}
		c.Close()
	}
}

func (g *guarded) Close() error {
	g.once.Do(func() {
		if g.dir != nil { // one that was handed over has no path: who made it removes it
			_ = g.dir.Remove(g.name)
			g.dir.Close()
		}
	})
	return g.Listener.Close()
}

// Dial connects to a socket on which our own user, or root, listens.
func Dial(ctx context.Context, path string) (*net.UnixConn, error) { return dial(ctx, path, false) }

// DialProgram connects to a socket in a program that we observe: root observes those of all users.
func DialProgram(ctx context.Context, path string) (*net.UnixConn, error) {
	return dial(ctx, path, os.Geteuid() == 0)
}

func dial(ctx context.Context, path string, anybody bool) (*net.UnixConn, error) {
	dir, err := rootdir.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", short(dir, filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	cred, err := credentials(c.(*net.UnixConn))
	if err == nil && !anybody && cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		err = remedy.Add(fmt.Errorf("the other end belongs to uid %d: %w", cred.Uid, fs.ErrPermission),
			"run as that user")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// Peer returns the PID at the other end of a connection that we made.
func Peer(c *net.UnixConn) (pid int, err error) {
	cred, err := credentials(c)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

func credentials(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	if credErr != nil {
		return nil, fmt.Errorf("ask who is at the other end: %w", credErr)
	}
	return cred, nil
}

// Hand makes a socket as Listen does, for another process to serve: the descriptor listens, and Inherit takes it there.
func Hand(path string) (*os.File, error) {
	l, err := Listen(path)
	if err != nil {
		return nil, err
	}
	g := l.(*guarded)
	inner := g.Listener.(*net.UnixListener)
	defer g.dir.Close()
	defer inner.Close() // the path stays
	return inner.File()
}

// Inherit is the listener whose descriptor the parent handed over.
func Inherit(fd uintptr) (net.Listener, error) {
	f := os.NewFile(fd, "inherited socket")
	if f == nil {
		return nil, fs.ErrInvalid
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &guarded{Listener: l}, nil
}
