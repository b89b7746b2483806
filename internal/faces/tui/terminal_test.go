package tui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/probe/inventory"
	"github.com/memgauge/memgauge/test/env"
)

// terminal is a real pseudoterminal, and what came out of it.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	mu     sync.Mutex
	out    bytes.Buffer
	done   chan struct{}
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		env.Missing(t, "pty", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, master: master, slave: slave, done: make(chan struct{})}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	go func() { // ends when the slave is closed
		defer close(x.done)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			x.mu.Lock()
			x.out.Write(b[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return x
}

func (x *terminal) close() string {
	x.slave.Close()
	<-x.done
	x.master.Close()
	return x.out.String()
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

func (x *terminal) state() unix.Termios {
	x.t.Helper()
	s, err := unix.IoctlGetTermios(int(x.slave.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatal(err)
	}
	return *s
}

// wait waits until the terminal has shown a text.
func (x *terminal) wait(text string) {
	x.t.Helper()
	for end := time.Now().Add(90 * time.Second); !strings.Contains(x.text(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("waited in vain for %q in %q", text, x.text())
		}
	}
}

type crashing struct{ house }

func (c *crashing) Machine(context.Context) (inventory.View, error) { panic("a mistake of ours") }

// The terminal is as before after Ctrl-C, after the context ended (SIGTERM), and after a panic, which is an error.
func TestTerminalIsRestored(t *testing.T) {
	for name, how := range map[string]struct {
		doors Doors
		leave func(x *terminal, cancel func())
		fails bool
	}{
		"ctrl-c": {&house{view: machineView()}, func(x *terminal, _ func()) {
			x.wait("Python processes")
			_, _ = io.WriteString(x.master, "\x03")
		}, false},
		"context": {&house{view: machineView()}, func(x *terminal, cancel func()) {
			x.wait("Python processes")
			cancel()
		}, false},
		"panic": {&crashing{}, func(*terminal, func()) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := openTerminal(t)
			before := x.state()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- Run(ctx, Options{Doors: how.doors, In: x.slave, Out: x.slave, Mouse: true,
					Environ: []string{"TERM=xterm-256color"}})
			}()
			how.leave(x, cancel)
			var err error
			select {
			case err = <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("it does not end")
			}
			if (err != nil) != how.fails {
				t.Errorf("%v", err)
			}
			if after := x.state(); after != before {
				t.Errorf("the terminal's modes are %+v, were %+v", after, before)
			}
			out := x.close()
			for _, pair := range [][2]string{{"\x1b[?1049h", "\x1b[?1049l"}, {"\x1b[?25l", "\x1b[?25h"},
				{"\x1b[?1002h", "\x1b[?1002l"}} {
				if on, off := strings.LastIndex(out, pair[0]), strings.LastIndex(out, pair[1]); on > off {
					t.Errorf("%q is not taken back: %q", pair[0], out[max(0, len(out)-300):])
				}
			}
		})
	}
}

// NO_COLOR leaves the colours out.
func TestNoColor(t *testing.T) {
	x := openTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Doors: &house{view: machineView()}, In: x.slave, Out: x.slave,
			Environ: []string{"TERM=xterm-256color", "NO_COLOR=1"}})
	}()
	x.wait("Python processes")
	_, _ = io.WriteString(x.master, "q")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if out := x.close(); strings.Contains(out, "38;5;") || strings.Contains(out, "38;2;") {
		t.Errorf("colours: %q", out)
	}
}
