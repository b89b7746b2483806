package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// ErrEnded is what an eval returns when its process ended while it ran the code.
var ErrEnded = errors.New("the process ended while it ran the code")

var errEndedInCensus = errors.New("the process ended meanwhile")

const (
	// HelloWait bounds the wait for an agent's Hello if the caller has set no limit: its thread needs the GIL, and an
	// extension may hold that for seconds.
	HelloWait = 10 * time.Second
	// interruptWait is how long an interrupted eval may still answer: the agent gives code up after 1 s.
	interruptWait = 3 * time.Second
	// endWait is how long a process may take to vanish after its socket has closed: the kernel closes descriptors
	// before it frees a large address space.
	endWait = 5 * time.Second
	// askWait bounds the time in which an agent takes a request: it reads whenever it has the GIL.
	askWait = HelloWait
	// answerWait is how much longer than the code's own time its answer may take: the agent needs the GIL to give the
	// code up, and to send what is left.
	answerWait = HelloWait
	// lateBytes is what an agent may send after that to a client that has taken its time. What waits in an honest one
	// is 1 MiB of output and what the code was about to add, a value and a traceback.
	lateBytes = 16 << 20
	// maxSaid bounds an error's text, which an agent takes from its process: a reason fits into a few lines.
	maxSaid = 2000
)

// errEndless means that the process does not end an answer whose time is over. Agents do; so it is not ours, or not
// only, that answers there.
var errEndless = errors.New("the process has not ended its answer, though the time for it is over")

// Client speaks to the agent in one process. It serves one request at a time.
type Client struct {
	conn  net.Conn
	pid   int // as this process sees it
	Hello wire.Hello
}

// Dial connects to the control socket at path, which may be longer than a socket's name, or through a door, whose
// address a session has in place of a path. It refuses a socket on which another user listens.
func Dial(ctx context.Context, path string) (*Client, error) {
	if strings.HasPrefix(path, doorPrefix) {
		return dialDoor(ctx, path)
	}
	conn, err := sock.DialProgram(ctx, path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			err = remedy.Add(err, "the process has ended, or its agent was detached; memgauge list shows what is alive")
		}
		return nil, fmt.Errorf("connect to the agent: %w", err)
	}
	pid, err := sock.Peer(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to the agent: %w", err)
	}
	return greet(ctx, conn, pid)
}

// greet makes a client of a connection. It closes the connection if the agent sends no Hello.
func greet(ctx context.Context, conn net.Conn, pid int) (*Client, error) {
	c := &Client{conn: conn, pid: pid}
	if err := c.handshake(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to the agent: %w", err)
	}
	return c, nil
}

func (c *Client) handshake(caller context.Context) error {
	ctx := caller
	if _, limited := caller.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(caller, HelloWait)
		defer cancel()
	}
	f, err := c.read(ctx)
	if errors.Is(caller.Err(), context.Canceled) {
		return caller.Err()
	}
	if errors.Is(err, io.EOF) {
		return remedy.Add(errors.New("it hung up"), "it serves 9 connections at a time, and all run code; try again")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return remedy.Add(fmt.Errorf("no answer in time: %w", err),
			"an extension may hold Python's lock, or the process is stopped")
	}
	if err != nil {
		return err
	}
	if f.Type != wire.FrameHello {
		return fmt.Errorf("%w: %s frame where hello comes first", wire.ErrCorrupt, f.Type)
	}
	c.Hello, err = wire.ParseHello(f.Payload)
	return err
}

// Close ends the connection; code that it still runs is interrupted.
func (c *Client) Close() error { return c.conn.Close() }

// PID is the agent's process.
func (c *Client) PID() int { return c.pid }

// Result is how code ended.
type Result struct {
	Outcome   wire.Outcome
	Value     string        // repr of the last expression, "" for none
	Exception string        // traceback, ends in a newline
	Elapsed   time.Duration // of the code, without the wait for its moment
	Began     bool          // whether the agent told where the code ran
	Place     wire.Place    // where it ran
	Waits     string        // for wire.PlaceIdle: what the main thread waited in
}

// Eval runs code and copies what it prints to stdout and stderr while it runs. When ctx ends, the code is interrupted
// and the result says so. A write error of stdout or stderr interrupts too and is returned.
func (c *Client) Eval(ctx context.Context, e wire.Eval, stdout, stderr io.Writer) (Result, error) {
	if err := c.sendEval(e); err != nil {
		return Result{}, fmt.Errorf("eval: %w", err)
	}
	stop := context.AfterFunc(ctx, c.interrupt)
	defer stop()
	answer := answerOf(c.conn, e.Timeout)
	var r Result
	for {
		f, err := answer.read()
		if err != nil {
			return r, fmt.Errorf("eval: %w", c.explain(ctx, err))
		}
		done, err := r.take(f, stdout, stderr)
		if done || err != nil {
			return r, err
		}
	}
}

// answer reads the frames of one answer. How long they come is the target's word: of the bounds, only those here hold.
type answer struct {
	conn   net.Conn
	began  time.Time
	limit  time.Duration // on the time that is spent waiting for frames, 0 for none
	waited time.Duration
	late   int // bytes that came after the limit
}

// answerOf is the answer to a request whose code has so much time, 0 for no limit.
func answerOf(conn net.Conn, timeout time.Duration) *answer {
	a := &answer{conn: conn, began: time.Now()}
	if timeout > 0 {
		a.limit = timeout + answerWait
	}
	return a
}

// read returns the next frame. A client whose reader takes nothing for a while may come late for what was sent in time;
// so time counts while we wait for the agent, and bytes count after it.
func (a *answer) read() (wire.Frame, error) {
	if a.limit == 0 {
		return wire.ReadFrame(a.conn)
	}
	start := time.Now()
	end := time.AfterFunc(a.limit-a.waited, func() { _ = a.conn.SetReadDeadline(time.Unix(1, 0)) })
	f, err := wire.ReadFrame(a.conn)
	inTime := end.Stop()
	a.waited += time.Since(start)
	if start.Sub(a.began) > a.limit {
		a.late += len(f.Payload)
	}
	if !inTime || a.late > lateBytes {
		return f, errEndless
	}
	return f, err
}

// said is an agent's reason, in one line.
func said(payload []byte) string {
	if len(payload) > maxSaid {
		return plain.Line(strings.ToValidUTF8(string(payload[:maxSaid]), "")) + "…"
	}
	return plain.Line(string(payload))
}

// sendEval sends the request in a form that the agent knows. An agent before 1.2 runs all code beside the main thread
// and records it. Our own requests are harmless there; other code is refused unless the user has requested that place.
func (c *Client) sendEval(e wire.Eval) error {
	if c.Hello.Minor >= 2 {
		return c.send(wire.FrameEvalAt, wire.AppendEvalAt(nil, e))
	}
	if e.Place != wire.PlaceBeside {
		err := errors.New("the process's agent is of an earlier version, which runs code beside the main thread only")
		return remedy.Add(err,
			"--beside runs it so; while PyTorch computes, code that changes tensors can end the process")
	}
	return c.send(wire.FrameEval, wire.AppendEval(nil, e))
}

// send sends a request, which the process need not take.
func (c *Client) send(t wire.FrameType, payload []byte) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(askWait))
	return wire.WriteFrame(c.conn, t, payload)
}

// interrupt requests the end of the code, and bounds the wait for it.
func (c *Client) interrupt() {
	_ = c.conn.SetDeadline(time.Now().Add(interruptWait))
	_ = wire.WriteFrame(c.conn, wire.FrameInterrupt, nil) // where it fails, reading fails too
}

// take adds a frame to the result.
func (r *Result) take(f wire.Frame, stdout, stderr io.Writer) (done bool, err error) {
	switch f.Type {
	case wire.FrameOutput:
		stream, text, err := wire.ParseOutput(f.Payload)
		if err != nil {
			return false, err
		}
		w := stdout
		if stream == wire.StreamStderr {
			w = stderr
		}
		if _, err := w.Write(text); err != nil {
			return false, fmt.Errorf("write the code's output: %w", err)
		}
	case wire.FrameValue:
		r.Value = string(f.Payload)
	case wire.FrameException:
		r.Exception = string(f.Payload)
	case wire.FramePlace:
		r.Began = true
		r.Place, r.Waits, err = wire.ParsePlace(f.Payload)
		return false, err
	case wire.FrameError:
		return false, fmt.Errorf("eval: the agent says: %s", said(f.Payload))
	case wire.FrameDone:
		d, err := wire.ParseDone(f.Payload)
		r.Outcome, r.Elapsed = d.Outcome, d.Elapsed
		return true, err
	}
	return false, nil // frames of a newer minor version
}

// explain says why a connection ended in the middle of an eval.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	if c.waitForEnd(ctx) {
		return ErrEnded
	}
	return remedy.Add(errors.New("the agent closed the connection in the middle of the answer"),
		"it was detached meanwhile, or is a process that replaced itself (exec)")
}

// waitForEnd waits until the process is gone or a zombie.
func (c *Client) waitForEnd(ctx context.Context) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if c.pid <= 0 || ended(c.pid) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// ended reads the state after the command's name, which is in parentheses and may hold anything (proc_pid_stat(5)).
func ended(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	i := strings.LastIndexByte(string(b), ')')
	return i >= 0 && i+2 < len(b) && (b[i+2] == 'Z' || b[i+2] == 'X')
}

// read reads a frame, at most until ctx ends.
func (c *Client) read(ctx context.Context) (wire.Frame, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
	f, err := wire.ReadFrame(c.conn)
	if !stop() && ctx.Err() != nil {
		return f, ctx.Err()
	}
	return f, err
}

// request sends a request that has one frame for an answer.
func (c *Client) request(ctx context.Context, t wire.FrameType, payload []byte, want wire.FrameType) (wire.Frame,
	error) {
	if err := c.send(t, payload); err != nil {
		return wire.Frame{}, err
	}
	f, err := c.read(ctx)
	switch {
	case err != nil:
		return f, fmt.Errorf("%s: %w", t, err)
	case f.Type == wire.FrameError:
		return f, fmt.Errorf("%s: the agent says: %s", t, said(f.Payload))
	case f.Type != want:
		return f, fmt.Errorf("%s: %w: answered with %s", t, wire.ErrCorrupt, f.Type)
	}
	return f, nil
}

// ask sends a request whose reply has no content.
func (c *Client) ask(ctx context.Context, t wire.FrameType, payload []byte, want wire.FrameType) error {
	_, err := c.request(ctx, t, payload, want)
	return err
}

// Ping checks whether the agent answers.
func (c *Client) Ping(ctx context.Context) error {
	return c.ask(ctx, wire.FramePing, []byte("memgauge"), wire.FramePong)
}

// Backtrace returns the Python stack of every thread.
func (c *Client) Backtrace(ctx context.Context, locals bool) (wire.Stacks, error) {
	flags := []byte{0}
	if locals {
		flags[0] = 1
	}
	f, err := c.request(ctx, wire.FrameBacktrace, flags, wire.FrameStacks)
	if err != nil {
		return wire.Stacks{}, err
	}
	return wire.ParseStacks(f.Payload)
}

// Detach has the agent remove its hooks, close its ring and its socket, and end. It returns when the connection has
// ended, which happens last. If only that is left, it also returns at the end of ctx: the agent's thread needs the GIL
// a few more times, and a program may hold the GIL for seconds, for which nobody needs to wait.
func (c *Client) Detach(ctx context.Context) error {
	if err := c.ask(ctx, wire.FrameDetach, nil, wire.FrameOK); err != nil {
		return err
	}
	for {
		if _, err := c.read(ctx); err != nil {
			return nil
		}
	}
}

// Census has the agent find what holds the memory. When it returns, the rows are in the agent's ring. Only one census
// runs in a process at a time; a second request gets the first one's result. If ctx ends, the census continues.
func (c *Client) Census(ctx context.Context, deep bool) (wire.Counted, error) {
	payload := []byte("deep\t0\n")
	if deep {
		payload = []byte("deep\t1\n")
	}
	if c.Hello.Minor == 0 {
		return wire.Counted{}, remedy.Add(errors.New("census: the process's agent is of an earlier version"),
			"it can be asked in sessions that this memgauge has started")
	}
	f, err := c.request(ctx, wire.FrameCensus, payload, wire.FrameCounted)
	if err != nil {
		if err = c.explain(ctx, err); errors.Is(err, ErrEnded) {
			err = errEndedInCensus
		}
		return wire.Counted{}, fmt.Errorf("census: %w", err)
	}
	return wire.ParseCounted(f.Payload)
}

// Settings changes what the agent does; the keys are those of docs/formats/control.md.
func (c *Client) Settings(ctx context.Context, settings map[string]string) error {
	var lines []string
	for k, v := range settings {
		lines = append(lines, k+"\t"+v+"\n")
	}
	sort.Strings(lines)
	return c.ask(ctx, wire.FrameSettings, []byte(strings.Join(lines, "")), wire.FrameOK)
}
