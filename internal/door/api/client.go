package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Client sends requests to a collector, or to any other server of Handler.
type Client struct {
	http *http.Client
}

var _ Session = (*Client)(nil)

// NewClient makes a client of the collector at a socket. It connects with the first request.
func NewClient(path string) *Client {
	return NewClientOn(func(ctx context.Context) (net.Conn, error) { return sock.Dial(ctx, path) })
}

// NewClientOn makes a client that connects by dial.
func NewClientOn(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true,
	}}}
}

// NewClientOver makes a client of whatever takes its requests to a Handler.
func NewClientOver(way http.RoundTripper) *Client { return &Client{&http.Client{Transport: way}} }

// WayError is what a way of NewClientOver returns for a failure that is not the collector's end.
type WayError struct{ Err error }

func (e *WayError) Error() string { return e.Err.Error() }
func (e *WayError) Unwrap() error { return e.Err }

// Dial reports whether a collector listens at the socket.
func Dial(ctx context.Context, path string) error {
	c, err := sock.Dial(ctx, path)
	if err != nil {
		return err
	}
	return c.Close()
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Query writes the result to w. On an error w may have received a part of it.
func (c *Client) Query(ctx context.Context, q QueryRequest, w io.Writer) error {
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	resp, err := c.do(ctx, http.MethodPost, "/v1/query", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for _, note := range resp.Header.Values(noteHeader) {
		q.Tell(note)
	}
	answer := &reading{from: resp.Body}
	if _, err := io.Copy(w, answer); err != nil {
		if answer.err == nil { // it was w
			return fmt.Errorf("query: %w", err)
		}
		return c.broken(ctx, "query", err)
	}
	return Broken(resp.Trailer)
}

// Broken is the error of an answer that had already begun, which its trailer carries; nil if it is whole.
func Broken(trailer http.Header) error {
	if t := trailer.Get(errorTrailer); t != "" {
		return decodeError([]byte(t))
	}
	return nil
}

// reading remembers whether a copy failed at its source.
type reading struct {
	from io.Reader
	err  error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// About describes the session.
func (c *Client) About(ctx context.Context) (a About, err error) {
	return a, c.get(ctx, "/v1/about", &a)
}

// End tells how the session ended.
func (c *Client) End(ctx context.Context) (e End, err error) { return e, c.get(ctx, "/v1/end", &e) }

// Processes lists the job's observed processes.
func (c *Client) Processes(ctx context.Context, q ProcessesRequest) (list []Process, err error) {
	return list, c.post(ctx, "/v1/processes", q, &list)
}

// Tables describes the tables.
func (c *Client) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	path := "/v1/tables"
	if all {
		path += "?all"
	}
	var r TablesReply
	err := c.get(ctx, path, &r)
	return r.Tables, err
}

// Summary describes the session in figures.
func (c *Client) Summary(ctx context.Context) (s Summary, err error) {
	return s, c.get(ctx, "/v1/summary", &s)
}

// Outcome is Summary; a live session has no outcome yet.
func (c *Client) Outcome(ctx context.Context) (Summary, error) { return c.Summary(ctx) }

// Finish tells the collector that the command has ended, and returns the summary.
func (c *Client) Finish(ctx context.Context) (s Summary, err error) {
	return s, c.post(ctx, "/v1/finish", nil, &s)
}

// Leak judges the session.
func (c *Client) Leak(ctx context.Context, q LeakRequest) (r detect.Report, err error) {
	return r, c.post(ctx, "/v1/leak", q, &r)
}

// OOM predicts when memory runs out.
func (c *Client) OOM(ctx context.Context, q OOMRequest) (*monitor.Report, error) {
	var r monitor.Report
	err := c.post(ctx, "/v1/oom", q, &r)
	return &r, err
}

// Where lists the job's bytes.
func (c *Client) Where(ctx context.Context) (w Where, err error) {
	return w, c.get(ctx, "/v1/where", &w)
}

// Census takes a census of live processes.
func (c *Client) Census(ctx context.Context, q CensusRequest) (r CensusReply, err error) {
	path := "/v1/census"
	if q.Deep {
		path += "?deep" // who passes it on sees what it needs
	}
	return r, c.post(ctx, path, q, &r)
}

// Backtrace returns the stacks of threads.
func (c *Client) Backtrace(ctx context.Context, q BacktraceRequest) (r BacktraceReply, err error) {
	if err = c.post(ctx, "/v1/backtrace", q, &r); err == nil && len(r.Processes) == 0 {
		err = fmt.Errorf("backtrace: %w", errNoProcess)
	}
	return r, err
}

// Blocks returns the segments and blocks of a device.
func (c *Client) Blocks(ctx context.Context, q BlocksRequest) (r BlocksReply, err error) {
	return r, c.post(ctx, "/v1/blocks", q, &r)
}

// Record switches the history of allocations on or off.
func (c *Client) Record(ctx context.Context, q RecordRequest) (r RecordReply, err error) {
	return r, c.post(ctx, "/v1/record", q, &r)
}

// Snapshot has a process write its memory snapshot.
func (c *Client) Snapshot(ctx context.Context, q SnapshotRequest, w io.Writer) (r SnapshotReply, err error) {
	path := "/v1/snapshot"
	if w == nil {
		return r, c.post(ctx, path, q, &r)
	}
	err = c.stream(ctx, path+"?bytes", q, func(f *frame) error {
		_, err := w.Write(f.Bytes)
		return err
	}, &r)
	return r, err
}

// Events calls take for each event, and with Follow for new ones.
func (c *Client) Events(ctx context.Context, q EventsRequest, take func(Event) error) error {
	return c.stream(ctx, "/v1/events", q, func(f *frame) error {
		if f.Event == nil {
			return nil
		}
		return take(*f.Event)
	}, nil)
}

// interruptWait bounds the wait for the outcome of interrupted code. The agent gives up after 1 s, its own client
// after 3 s.
const interruptWait = 4 * time.Second

// Eval runs code. If ctx ends, Eval sends an InterruptRequest and still returns the outcome.
func (c *Client) Eval(ctx context.Context, q EvalRequest, out EvalOutput) (r EvalReply, err error) {
	q.Key = rand.Text()
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		late, done := context.WithTimeout(running, interruptWait)
		defer done()
		if c.post(late, "/v1/interrupt", InterruptRequest{q.Key}, nil) == nil {
			<-late.Done()
		}
		cancel(context.Cause(ctx))
	})
	defer stop()
	chosen := 0
	err = c.stream(running, "/v1/eval", q, func(f *frame) error {
		switch {
		case f.Chosen != nil && out.Chosen != nil:
			chosen = len(f.Chosen)
			return out.Chosen(f.Chosen)
		case f.Output != nil && out.Chosen != nil && (f.Output.Process < 0 || f.Output.Process >= chosen):
			return fmt.Errorf("eval: %w", errNoProcess)
		case f.Output != nil:
			return out.Print(f.Output.Process, f.Output.Stderr, f.Output.Text)
		}
		return nil
	}, &r)
	if err == nil && (len(r.Results) == 0 || out.Chosen != nil && len(r.Results) > chosen) {
		err = fmt.Errorf("eval: %w", errNoProcess)
	}
	return r, err
}

// errNoProcess is an answer about processes that it does not name: whoever answers may be a stranger's node.
var errNoProcess = errors.New("the answer is about no process")

// get and post send a request whose reply is one JSON document.
func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.fetch(ctx, http.MethodGet, path, nil, into)
}

func (c *Client) post(ctx context.Context, path string, q, into any) error {
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("ask the collector: %w", err)
	}
	return c.fetch(ctx, http.MethodPost, path, body, into)
}

func (c *Client) fetch(ctx context.Context, method, path string, body []byte, into any) error {
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		into = new(json.RawMessage)
	}
	if err := readWithin(ctx, resp.Body, into); err != nil {
		return c.broken(ctx, "ask the collector", err)
	}
	return nil
}

// stream sends a request whose reply comes in frames, the last of which has the reply or an error.
func (c *Client) stream(ctx context.Context, path string, q any, take func(*frame) error, reply any) error {
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("ask the collector: %w", err)
	}
	resp, err := c.do(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for all := newFrameReader(resp.Body); ; {
		var f frame
		if err := all.next(&f); err != nil {
			return c.broken(ctx, "ask the collector", err)
		}
		switch {
		case f.Error != nil:
			return f.Error.Unpack()
		case f.Done && reply == nil:
			return nil
		case f.Done:
			_, err := Unmarshal(f.Reply, reply, maxMade)
			return err
		}
		if err := take(&f); err != nil {
			return err
		}
	}
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+localHost+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the collector: %w", err)
	}
	resp, err := c.http.Do(req)
	var way *WayError
	if errors.As(err, &way) && ctx.Err() == nil {
		return nil, way.Err
	}
	if err != nil {
		return nil, c.broken(ctx, "ask the collector", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s: %w", path, ErrUnknown)
	}
	// an error message of DuckDB repeats the statement at most once
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, c.broken(ctx, "ask the collector", err)
	}
	return nil, decodeError(b)
}

// broken describes a failure of the connection. If ctx has ended it, the error is that of ctx.
func (c *Client) broken(ctx context.Context, what string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return fmt.Errorf("%s: %w", what, ErrCanceled)
		}
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrBroken, err)
}

func decodeError(b []byte) error {
	var e Error
	if err := json.Unmarshal(b, &e); err != nil || e.Message == "" {
		return fmt.Errorf("ask the collector: it answered %.200q", b)
	}
	return e.Unpack()
}
