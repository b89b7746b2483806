package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
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
	far, err := unix.PidfdGetfd(pidfd, fd, 0)
	if errors.Is(err, unix.ENOSYS) {
		err = remedy.Add(err, "the process sees other directories than we do, which needs Linux 5.6 (pidfd_getfd)")
	}
	if err != nil {
		return nil, fmt.Errorf("take the agent's socket from process %d: %w", pid, err)
	}
	return &Door{far}, nil
}

// Close closes our copy.
func (d *Door) Close() error { return unix.Close(d.fd) }

// HandRing gives the agent the file that is to be its ring, empty and open for reading and writing.
func (d *Door) HandRing(ctx context.Context, f *os.File) error {
	text, fds, err := d.ask(ctx, "ring", int(f.Fd()))
	closeAll(fds)
	if err == nil && text != "ok" {
		err = fmt.Errorf("the agent says: %s", said([]byte(text)))
	}
	return err
}

// Connect requests a connection to the agent.
func (d *Door) Connect(ctx context.Context) (net.Conn, error) {
	text, fds, err := d.ask(ctx, "new")
	if err == nil && (text != "connection" || len(fds) != 1) {
		err = fmt.Errorf("the agent says: %s", said([]byte(text)))
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "agent")
	defer f.Close() // FileConn copies it
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return sharedConn(conn)
}

// shared is a connection whose socket the target may have kept a copy of, with which it shares the flags: without
// O_NONBLOCK a read would wait where no deadline and no signal's handler ends it. So no call here may block, whatever
// the flags say.
type shared struct {
	*net.UnixConn
	raw syscall.RawConn
}

func sharedConn(conn net.Conn) (net.Conn, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("the agent has sent something else than a unix socket")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return nil, err
	}
	return shared{c, raw}, nil
}

func (s shared) Read(b []byte) (n int, err error) {
	waited := s.raw.Read(func(fd uintptr) bool {
		n, _, err = unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case waited != nil:
		return 0, waited
	case err != nil:
		return 0, os.NewSyscallError("recvfrom", err)
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}

func (s shared) Write(b []byte) (written int, err error) {
	for written < len(b) {
		var n int
		waited := s.raw.Write(func(fd uintptr) bool {
			n, err = unix.SendmsgN(int(fd), b[written:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			return !errors.Is(err, unix.EAGAIN)
		})
		if waited != nil {
			return written, waited
		}
		if err != nil {
			return written, os.NewSyscallError("sendmsg", err)
		}
		written += n
	}
	return written, nil
}

// ask sends one message and reads one. Another client of the same door may read our answer, and we theirs: the answers
// are interchangeable.
func (d *Door) ask(ctx context.Context, text string, send ...int) (string, []int, error) {
	var rights []byte
	if len(send) > 0 {
		rights = unix.UnixRights(send...)
	}
	ctx, cancel := context.WithTimeout(ctx, doorWait)
	defer cancel()
	if err := d.send(ctx, []byte(text), rights); err != nil {
		return "", nil, err
	}
	if err := waitFor(ctx, d.fd, unix.POLLIN); err != nil {
		return "", nil, err
	}
	buf, extra := make([]byte, 1024), make([]byte, unix.CmsgSpace(4))
	n, en, _, _, err := unix.Recvmsg(d.fd, buf, extra, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return "", nil, err
	}
	return string(buf[:n]), receivedFDs(extra[:en]), nil
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

func receivedFDs(extra []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(extra)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if got, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
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

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
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
