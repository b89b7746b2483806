package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/probe/proc"
)

// TestFullDoor: a target that takes nothing, and has filled the socket that it shares, makes nobody wait beyond the end
// of what is asked.
func TestFullDoor(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	d := &Door{pair[0]}
	defer d.Close()
	for err == nil {
		err = unix.Sendmsg(d.fd, []byte("x"), nil, nil, unix.MSG_DONTWAIT)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	told := make(chan error, 1)
	go func() {
		told <- d.ask(ctx, "new", pair[1])
	}()
	select {
	case err := <-told:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for ever")
	}
}

// TestDoorThatBlocks: the target makes its end of the connection a blocking one, and says and takes nothing. It makes
// nobody wait beyond the end of what is asked, whether they read or write.
func TestDoorThatBlocks(t *testing.T) {
	for name, use := range map[string]func(c *Client, ctx context.Context) error{
		"read": func(c *Client, ctx context.Context) error { return c.handshake(ctx) },
		"write": func(c *Client, ctx context.Context) error {
			stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
			defer stop()
			_, err := c.conn.Write(make([]byte, 64<<20))
			return err
		},
	} {
		conn, theirs := connected(t)
		if err := unix.SetNonblock(theirs, false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		told := make(chan error, 1)
		go func() { told <- use(&Client{conn: conn}, ctx) }()
		select {
		case err := <-told:
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it waits for ever", name)
		}
		unix.Close(theirs) // ends what still waits
		conn.Close()
	}
}

// connected is a connection through a door, and the target's end of it.
func connected(t *testing.T) (conn net.Conn, theirs int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	d := &Door{pair[0]}
	defer d.Close()
	// the answer is there before the question, and has a descriptor that nobody wants
	if err := unix.Sendmsg(pair[1], []byte("ok"), unix.UnixRights(pair[0]), nil, 0); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	if conn, err = d.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, extra := make([]byte, 64), make([]byte, unix.CmsgSpace(4))
	n, en, _, _, err := unix.Recvmsg(pair[1], text, extra, 0)
	if err != nil || string(text[:n]) != "new" {
		t.Fatalf("%q, %v", text[:n], err)
	}
	messages, err := unix.ParseSocketControlMessage(extra[:en])
	if err != nil || len(messages) != 1 {
		t.Fatal(messages, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatal(fds, err)
	}
	if n := descriptors(t); n != before+2 {
		t.Errorf("%d descriptors came, not the two ends", n-before)
	}
	return conn, fds[0]
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestDoorIsNoSocket: what the target has in place of its socket is not taken, since closing it may wait for ever.
func TestDoorIsNoSocket(t *testing.T) {
	start, err := proc.New("/proc").StartTicks(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if d, err := OpenDoor(os.Getpid(), start, int(r.Fd())); !errors.Is(err, errNoDoor) {
		t.Errorf("%+v, %v", d, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if d, err := OpenDoor(os.Getpid(), start, int(f.Fd())); !errors.Is(err, errNoDoor) {
		t.Errorf("%+v, %v", d, err)
	}
}
