package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/test/env"
)

// program starts a real Python process that has a control socket and runs the code, which must print a line when ready.
func program(t *testing.T, code string) (socket string, cmd *exec.Cmd) {
	t.Helper()
	python := env.Program(t, "python3")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("a", 80), strings.Repeat("b", 80)) // too long for sockaddr_un
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "ctl.sock")
	cmd = exec.Command(python, "-u", "-c", code)
	cmd.Env = append(os.Environ(), "MEMGAUGE_TEST_SOCKET="+socket, "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONPATH="+filepath.Join(here, "../../../test/agent/host")+":"+filepath.Join(here, "../../../python"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	if _, err := out.Read(make([]byte, 64)); err != nil {
		t.Fatal("the program didn't start: ", err)
	}
	return socket, cmd
}

const waits = "import sys\nx = 41\nprint('ready')\nsys.stdin.read()"

func dial(t *testing.T, socket string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestClientEval(t *testing.T) {
	socket, cmd := program(t, waits)
	c := dial(t, socket)
	if c.Hello.Agent != "test-agent" || c.PID() != cmd.Process.Pid {
		t.Errorf("hello %+v, pid %d; want test-agent and %d", c.Hello, c.PID(), cmd.Process.Pid)
	}
	check := func(code string, timeout time.Duration, want Result, wantOut, wantErr string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		r, err := c.Eval(t.Context(), wire.Eval{Timeout: timeout, Code: code, Place: wire.PlaceBeside}, &stdout,
			&stderr)
		if err != nil || !r.Began || r.Place != wire.PlaceBeside {
			t.Fatalf("%s: %+v, %v", code, r, err)
		}
		if r.Outcome != want.Outcome || r.Value != want.Value || !strings.HasSuffix(r.Exception, want.Exception) ||
			(want.Exception == "") != (r.Exception == "") {
			t.Errorf("%s: %+v, want %+v", code, r, want)
		}
		if stdout.String() != wantOut || stderr.String() != wantErr {
			t.Errorf("%s: printed %q and %q, want %q and %q", code, stdout.String(), stderr.String(), wantOut, wantErr)
		}
	}
	check("x += 1; x", time.Minute, Result{Value: "42"}, "", "")
	check("import sys; print('ж', end=''); sys.stderr.write('e')\n", time.Minute, Result{Value: "1"}, "ж", "e")
	check("1/0", time.Minute, Result{Outcome: wire.OutcomeException,
		Exception: "ZeroDivisionError: division by zero\n"}, "", "")
	check("while True: pass", 100*time.Millisecond, Result{Outcome: wire.OutcomeTimeout, Exception: "time limit\n"}, "",
		"")
	var said bytes.Buffer
	r, err := c.Eval(t.Context(), wire.Eval{Timeout: time.Minute, Code: "x"}, io.Discard, &said)
	if err != nil || r.Place != wire.PlaceIdle || !strings.Contains(r.Waits, "<module>()") ||
		!strings.Contains(said.String(), "ran beside it") {
		t.Errorf("of a main thread that waits for input: %+v, %q, %v", r, said.String(), err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Settings(t.Context(), map[string]string{"budget": "0.02", "trace": "off"}); err != nil {
		t.Error(err)
	}
	if err := c.Settings(t.Context(), map[string]string{"nonsense": "1"}); err == nil ||
		!strings.Contains(err.Error(), "no budget") {
		t.Errorf("settings that the agent refuses: %v", err)
	}
}

func TestClientInterrupt(t *testing.T) {
	socket, _ := program(t, waits)
	c := dial(t, socket)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := writer(func([]byte) { cancel() })
	r, err := c.Eval(ctx, wire.Eval{Code: "print('on my way')\nwhile True: pass"}, started, started)
	if err != nil || r.Outcome != wire.OutcomeInterrupted {
		t.Errorf("interrupted eval: %+v, %v", r, err)
	}
	r, err = dial(t, socket).Eval(t.Context(), wire.Eval{Code: "x"}, started, started)
	if err != nil || r.Value != "41" {
		t.Errorf("after it: %+v, %v", r, err)
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

func TestClientProcessEnds(t *testing.T) {
	for _, code := range []string{"import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)"} {
		socket, cmd := program(t, waits)
		_, err := dial(t, socket).Eval(t.Context(), wire.Eval{Code: code}, &bytes.Buffer{}, &bytes.Buffer{})
		if !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v, want %v", code, err, ErrEnded)
		}
		_ = cmd.Wait() // it says how it ended, which the code decided
		if _, err := Dial(t.Context(), socket); err == nil || !strings.Contains(err.Error(), "connect to the agent") {
			t.Errorf("dial a process that has ended: %v", err)
		}
	}
}

func TestClientDetach(t *testing.T) {
	socket, _ := program(t, waits)
	if err := dial(t, socket).Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the socket is still there")
		}
		if c, err := Dial(t.Context(), socket); err == nil { // waits for the agent, which is about to close
			c.Close()
		}
	}
}

// TestClientRefuses has something else than an agent at the other end.
func TestClientRefuses(t *testing.T) {
	check := func(want string, target error, say func(net.Conn)) {
		t.Helper()
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				say(c)
				c.Close()
			}
		}()
		_, err = Dial(t.Context(), socket)
		if err == nil || !strings.Contains(err.Error(), want) || target != nil && !errors.Is(err, target) {
			t.Errorf("dial: %v, want %q", err, want)
		}
	}
	check("control format 2.0", wire.ErrVersion, func(c net.Conn) {
		_ = wire.WriteFrame(c, wire.FrameHello, wire.AppendHello(nil, wire.Hello{Major: 2}))
	})
	check("value frame where hello comes first", wire.ErrCorrupt,
		func(c net.Conn) { _ = wire.WriteFrame(c, wire.FrameValue, nil) })
	check("it hung up", nil, func(net.Conn) {})
	check("frame of", wire.ErrCorrupt, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n")) })
}

// hostile is a client of a process that says what send sends, until its reader has gone.
func hostile(t *testing.T, send func(w io.Writer) error) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	var all sync.WaitGroup
	all.Go(func() {
		for send(theirs) == nil {
		}
		theirs.Close()
	})
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
		all.Wait()
	})
	return ours
}

// TestEndlessAnswers: an answer that does not end is given up, whether the process says much, or nothing, or little for
// ever. What was sent in time to a client that comes late is read.
func TestEndlessAnswers(t *testing.T) {
	output := func(n int) func(w io.Writer) error {
		return func(w io.Writer) error { return wire.WriteFrame(w, wire.FrameOutput, make([]byte, n)) }
	}
	silent := func(w io.Writer) error { _, err := w.(net.Conn).Read(make([]byte, 1)); return err }
	drain := func(a *answer) (got int, err error) {
		for {
			f, err := a.read()
			if err != nil {
				return got, err
			}
			got += len(f.Payload)
		}
	}
	for name, send := range map[string]func(w io.Writer) error{"flood": output(1 << 16), "silence": silent} {
		got, err := drain(&answer{conn: hostile(t, send), began: time.Now().Add(-time.Hour), limit: time.Second})
		if !errors.Is(err, errEndless) || got > lateBytes {
			t.Errorf("%s: %d bytes, then %v", name, got, err)
		}
	}
	_, err := drain(&answer{conn: hostile(t, output(1)), began: time.Now(), limit: time.Hour, waited: time.Hour})
	if !errors.Is(err, errEndless) {
		t.Errorf("drops: %v", err)
	}
	left := 8
	got, err := drain(&answer{began: time.Now().Add(-2 * time.Hour), limit: time.Hour,
		conn: hostile(t, func(w io.Writer) error {
			if left--; left < 0 {
				return io.EOF
			}
			return output(1 << 19)(w)
		})})
	if !errors.Is(err, io.EOF) || got != 4<<20 {
		t.Errorf("a late client: %d bytes, then %v", got, err)
	}
}

// TestSaidIsOneLine: an agent's reason forges no line of ours, and has an end.
func TestSaidIsOneLine(t *testing.T) {
	got := said(bytes.Repeat([]byte("no\nhint: run this\x1b[2J "), 1000))
	if strings.ContainsAny(got, "\n\x1b") || len(got) > 3*maxSaid {
		t.Errorf("%d bytes: %q", len(got), got[:100])
	}
}
