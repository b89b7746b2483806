package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
)

// scripted answers with what a test puts in; a question that it has no answer for is a bug of the test.
type scripted struct {
	api.Session
	eval     func(ctx context.Context, q api.EvalRequest, out api.EvalOutput) (api.EvalReply, error)
	query    func(q api.QueryRequest, w io.Writer) error
	events   []api.Event
	snapshot []byte
}

func (s *scripted) Eval(ctx context.Context, q api.EvalRequest, out api.EvalOutput) (api.EvalReply, error) {
	return s.eval(ctx, q, out)
}

func (s *scripted) Query(_ context.Context, q api.QueryRequest, w io.Writer) error {
	return s.query(q, w)
}

func (s *scripted) Events(_ context.Context, q api.EventsRequest, take func(api.Event) error) error {
	for _, e := range s.events {
		if err := take(e); err != nil {
			return err
		}
	}
	if q.Follow {
		return remedy.Add(errors.New("the session was lost"), "look for it elsewhere")
	}
	return nil
}

func (s *scripted) Snapshot(_ context.Context, q api.SnapshotRequest, w io.Writer) (api.SnapshotReply, error) {
	r := api.SnapshotReply{Bytes: int64(len(s.snapshot)), History: "yes"}
	if w == nil {
		r.Path = "kept"
		return r, nil
	}
	_, err := io.Copy(w, bytes.NewReader(s.snapshot))
	return r, err
}

func (s *scripted) Backtrace(context.Context, api.BacktraceRequest) (api.BacktraceReply, error) {
	return api.BacktraceReply{}, fmt.Errorf("backtrace: %w",
		remedy.Add(fmt.Errorf("%w of 2 s", api.ErrTimeout), "--timeout 1m waits longer"))
}

// serve offers a session on a socket, and gives a client of it.
func serve(t *testing.T, s api.Session) (*api.Client, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := api.Server(t.Context(), api.Handler(s, api.Owner, func() {}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	c := api.NewClient(socket)
	t.Cleanup(func() { c.Close(); server.Close(); <-served })
	return c, socket
}

// TestErrorsCrossTheSocket with their words, their remedy and their kind.
func TestErrorsCrossTheSocket(t *testing.T) {
	c, _ := serve(t, &scripted{query: func(q api.QueryRequest, w io.Writer) error {
		if q.SQL == "half" {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
		}
		return remedy.Add(errors.New("no such table: x"), "SHOW ALL TABLES lists them")
	}})
	_, err := c.Backtrace(t.Context(), api.BacktraceRequest{})
	if !errors.Is(err, api.ErrTimeout) || remedy.Of(err) != "--timeout 1m waits longer" ||
		err.Error() != "backtrace: ran into its time limit of 2 s" {
		t.Errorf("%v, %q", err, remedy.Of(err))
	}
	for _, sql := range []string{"none", "half"} { // before and after the answer has begun
		err := c.Query(t.Context(), api.QueryRequest{SQL: sql}, io.Discard)
		if err == nil || err.Error() != "no such table: x" || remedy.Of(err) != "SHOW ALL TABLES lists them" {
			t.Errorf("%s: %v, %q", sql, err, remedy.Of(err))
		}
	}
}

// TestEvalStreams: output comes while the code runs, each piece once, in order and as bytes, and the reply after it.
func TestEvalStreams(t *testing.T) {
	heard := make(chan struct{})
	want := api.EvalReply{Results: []api.EvalResult{{Process: api.Process{PID: 7, Rank: -1}, Outcome: api.Fine,
		Value: "5", Elapsed: time.Second, Began: true, Place: api.Main}}}
	c, _ := serve(t, &scripted{eval: func(_ context.Context, q api.EvalRequest, out api.EvalOutput) (api.EvalReply,
		error) {
		if q.Code != "2+3" || *q.Choice.Rank != 0 || q.Timeout != time.Minute {
			return api.EvalReply{}, fmt.Errorf("asked %+v", q)
		}
		err := errors.Join(out.Chosen([]api.Process{{PID: 7}}), out.Print(0, false, []byte("a\xff")),
			out.Print(0, true, []byte("é")))
		<-heard // the client has them before there is a reply
		return want, err
	}})
	rank := 0
	var got []string
	r, err := c.Eval(t.Context(), api.EvalRequest{Code: "2+3", Choice: api.Choice{Rank: &rank}, Timeout: time.Minute},
		api.EvalOutput{Chosen: func(list []api.Process) error { got = append(got, fmt.Sprint(len(list))); return nil },
			Print: func(p int, stderr bool, text []byte) error {
				got = append(got, fmt.Sprintf("%d %v %q", p, stderr, text))
				if stderr {
					close(heard)
				}
				return nil
			}})
	if err != nil || !reflect.DeepEqual(r, want) ||
		strings.Join(got, "; ") != `1; 0 false "a\xff"; 0 true "é"` {
		t.Errorf("%+v, %v; %q", r, err, got)
	}
}

// TestEvalIsInterrupted: a caller who gives up has the code interrupted, and hears what came of it; one whose
// connection ends has it interrupted as well.
func TestEvalIsInterrupted(t *testing.T) {
	ended := make(chan struct{}, 2)
	c, _ := serve(t, &scripted{eval: func(ctx context.Context, _ api.EvalRequest, out api.EvalOutput) (api.EvalReply,
		error) {
		if err := out.Print(0, false, []byte("began")); err != nil {
			return api.EvalReply{}, err
		}
		<-ctx.Done()
		ended <- struct{}{}
		return api.EvalReply{Results: []api.EvalResult{{Outcome: api.Interrupted}}}, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Eval(ctx, api.EvalRequest{}, api.EvalOutput{Print: func(int, bool, []byte) error {
		cancel()
		return nil
	}})
	if err != nil || len(r.Results) != 1 || r.Results[0].Outcome != api.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
	<-ended
	full := errors.New("no room")
	if _, err := c.Eval(t.Context(), api.EvalRequest{}, api.EvalOutput{Print: func(int, bool, []byte) error {
		return full
	}}); !errors.Is(err, full) {
		t.Errorf("a reader without room: %v", err)
	}
	<-ended
}

// TestEvalIsInterruptedByAnotherHandler: a node makes one for each question, and the interruption is another question.
func TestEvalIsInterruptedByAnotherHandler(t *testing.T) {
	s := &scripted{eval: func(ctx context.Context, _ api.EvalRequest, out api.EvalOutput) (api.EvalReply, error) {
		_ = out.Print(0, false, []byte("began"))
		<-ctx.Done()
		return api.EvalReply{Results: []api.EvalResult{{Outcome: api.Interrupted}}}, nil
	}}
	var evals api.Evals
	socket := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := api.Server(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		evals.Handler(s, api.Owner, nil).ServeHTTP(w, r)
	}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	c := api.NewClient(socket)
	t.Cleanup(func() { c.Close(); server.Close(); <-served })
	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Eval(ctx, api.EvalRequest{}, api.EvalOutput{Print: func(int, bool, []byte) error {
		cancel()
		return nil
	}})
	if err != nil || len(r.Results) != 1 || r.Results[0].Outcome != api.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestEventsAndSnapshotsStream: an error after the first pieces is told behind them.
func TestEventsAndSnapshotsStream(t *testing.T) {
	s := &scripted{snapshot: bytes.Repeat([]byte("pickle\x00"), 100_000)}
	for i := range 3000 {
		s.events = append(s.events, api.Event{Time: time.UnixMicro(int64(i)).UTC(), PID: i, Name: "oom", Text: "\n"})
	}
	c, _ := serve(t, s)
	var got []api.Event
	take := func(e api.Event) error { got = append(got, e); return nil }
	if err := c.Events(t.Context(), api.EventsRequest{}, take); err != nil || !reflect.DeepEqual(got, s.events) {
		t.Errorf("%d events, %v", len(got), err)
	}
	err := c.Events(t.Context(), api.EventsRequest{Follow: true}, take)
	if len(got) != 6000 || err == nil || err.Error() != "the session was lost" || remedy.Of(err) == "" {
		t.Errorf("%d events, %v", len(got), err)
	}
	enough := errors.New("enough")
	if err := c.Events(t.Context(), api.EventsRequest{}, func(api.Event) error { return enough }); err != enough {
		t.Errorf("a reader that has enough: %v", err)
	}
	var file bytes.Buffer
	if r, err := c.Snapshot(t.Context(), api.SnapshotRequest{}, &file); err != nil || r.Path != "" ||
		!bytes.Equal(file.Bytes(), s.snapshot) || r.Bytes != int64(file.Len()) {
		t.Errorf("%+v, %v, %d bytes", r, err, file.Len())
	}
	if r, err := c.Snapshot(t.Context(), api.SnapshotRequest{}, nil); err != nil || r.Path != "kept" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestOtherVersions: a question of tomorrow is refused as such, and a member of tomorrow does no harm.
func TestOtherVersions(t *testing.T) {
	old := http.NewServeMux() // a collector that knows one question
	old.HandleFunc("GET /v1/summary", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"rows": 5, "moons": 2})
	})
	server := &http.Server{Handler: old}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "api.sock"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Close(); <-served }()
	c := api.NewClient(l.Addr().String())
	defer c.Close()
	if sum, err := c.Summary(t.Context()); err != nil || sum.Rows != 5 {
		t.Errorf("%+v, %v", sum, err)
	}
	if _, err := c.Where(t.Context()); !errors.Is(err, api.ErrUnknown) {
		t.Errorf("a question that it does not know: %v", err)
	}
}

// TestStrangersAreRefused: a page in a browser that got at the socket names another host.
func TestStrangersAreRefused(t *testing.T) {
	_, socket := serve(t, &scripted{})
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /v1/summary HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 403 ") {
		t.Errorf("%.60q, %v", answer, err)
	}
}

// The text of an error that crosses a socket is bounded, whatever a row has put into it, and stays valid UTF-8.
func TestLongErrorIsShortened(t *testing.T) {
	row := strings.Repeat("é", 1<<20)
	e := api.Pack(remedy.Add(errors.New("conversion of "+row), "not "+row))
	for _, text := range []string{e.Message, e.Hint} {
		if len(text) > 17<<10 || !utf8.ValidString(text) || !strings.Contains(text, "bytes more)") {
			t.Errorf("%d bytes, ending with %q", len(text), text[len(text)-40:])
		}
	}
	if e := api.Pack(errors.New("no such column")); e.Message != "no such column" || e.Hint != "" {
		t.Errorf("%+v", e)
	}
}
