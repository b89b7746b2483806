package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// doorPrefix begins the address of an agent that has no path: PID, start and descriptor of its door follow.
const doorPrefix = "door:"

// Door is the far end of an agent's door (python/memgauge/_agent/control/door.py): how to reach an agent in
// a process that does not see the session's directory.
type Door struct{ fd int }

// doorWait bounds an answer through the door: the agent's thread needs the GIL for it.
const doorWait = 10 * time.Second

var errNoDoor = errors.New("it has something else there")

// OpenDoor takes a copy of the door's far end, which is descriptor fd of the process. That needs the right to trace it,
// and Linux 5.6 (pidfd_getfd(2)).
func OpenDoor(pid int, start uint64, fd int) (*Door, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(pidfd)
	if !proc.New("/proc").Alive(pid, start) { // after the pidfd, which keeps the number from being used again
		return nil, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	// Closing a file of another kind may wait for the target, so none is taken. Reading the link asks no file system.
	kind, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err == nil && !strings.HasPrefix(kind, "socket:") {
		return nil, fmt.Errorf("take the agent's socket from process %d: %w", pid, errNoDoor)
	}
	far, err := unix.PidfdGetfd(pidfd, fd, 0)
	if errors.Is(err, unix.ENOSYS) {
		err = remedy.Add(err, "the process sees other directories than we do, which needs Linux 5.6 (pidfd_getfd)")
	}
	if err != nil {
		return nil, fmt.Errorf("take the agent's socket from process %d: %w", pid, err)
	}
	if domain, err := unix.GetsockoptInt(far, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_UNIX {
		go unix.Close(far) // exchanged meanwhile: it may wait, and we don't
		return nil, fmt.Errorf("take the agent's socket from process %d: %w", pid, errNoDoor)
	}
	return &Door{far}, nil
}

// Close closes our copy.
func (d *Door) Close() error { return unix.Close(d.fd) }

// HandRing gives the agent the file that is to be its ring, empty and open for reading and writing.
func (d *Door) HandRing(ctx context.Context, f *os.File) error {
	return d.ask(ctx, "ring", int(f.Fd()))
}

// Connect gives the agent one end of a connection. The other is ours alone: the target can change none of its flags.
func (d *Door) Connect(ctx context.Context) (net.Conn, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours := os.NewFile(uintptr(ends[0]), "agent")
	defer ours.Close() // FileConn copies it
	err = d.ask(ctx, "new", ends[1])
	unix.Close(ends[1])
	if err != nil {
		return nil, err
	}
	return net.FileConn(ours)
}

// ask sends one message and reads one. Another client of the same door may read our answer, and we theirs: the answers
// are interchangeable. It takes no descriptor: closing a file of the target's choice could wait for the target (a FUSE
// file is flushed by each close(2)).
func (d *Door) ask(ctx context.Context, text string, give int) error {
	ctx, cancel := context.WithTimeout(ctx, doorWait)
	defer cancel()
	if err := d.send(ctx, []byte(text), unix.UnixRights(give)); err != nil {
		return err
	}
	if err := waitFor(ctx, d.fd, unix.POLLIN); err != nil {
		return err
	}
	buf := make([]byte, 1024)
	n, _, err := unix.Recvfrom(d.fd, buf, unix.MSG_DONTWAIT)
	if err != nil {
		return err
	}
	if string(buf[:n]) != "ok" {
		return fmt.Errorf("the agent says: %s", said(buf[:n]))
	}
	return nil
}

// send waits for room no longer than ctx: the target shares the socket with us, with all of its options and what fills
// it.
func (d *Door) send(ctx context.Context, text, rights []byte) error {
	for {
		err := unix.Sendmsg(d.fd, text, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
		if err := waitFor(ctx, d.fd, unix.POLLOUT); err != nil {
			return err
		}
	}
}

// waitFor waits until the socket can be read or written. It checks ctx often, since that can't interrupt poll(2).
func waitFor(ctx context.Context, fd int, events int16) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 20)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
	}
}

// dialDoor connects to the address PID:START:FD of a door.
func dialDoor(ctx context.Context, address string) (*Client, error) {
	var pid, fd int
	var start uint64
	if _, err := fmt.Sscanf(strings.TrimPrefix(address, doorPrefix), "%d:%d:%d", &pid, &start, &fd); err != nil {
		return nil, fmt.Errorf("connect to the agent: address %q: %w", address, err)
	}
	d, err := OpenDoor(pid, start, fd)
	if err != nil {
		return nil, fmt.Errorf("connect to the agent: %w", err)
	}
	defer d.Close()
	conn, err := d.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the agent: %w", err)
	}
	return greet(ctx, conn, pid)
}
