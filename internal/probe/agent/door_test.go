package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
		_, _, err := d.ask(ctx, "new")
		told <- err
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

// TestDoorThatBlocks: the target has kept a copy of the connection's socket, and makes it a blocking one. It makes
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
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
		if err != nil {
			t.Fatal(err)
		}
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		d := &Door{pair[0]}
		if err := unix.Sendmsg(pair[1], []byte("connection"), unix.UnixRights(ends[1]), nil, 0); err != nil {
			t.Fatal(err)
		}
		conn, err := d.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(ends[1], false); err != nil {
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
		unix.Close(ends[0]) // ends what still waits
		conn.Close()
		d.Close()
		unix.Close(ends[1])
		unix.Close(pair[1])
	}
}
