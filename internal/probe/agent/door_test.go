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
