package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// errorTrailer carries the error of a query whose reply had already begun.
const errorTrailer = "Memgauge-Error"

// noteHeader carries QueryRequest.Note's remark.
const noteHeader = "Memgauge-Note"

const (
	readPatience = 30 * time.Second // for receiving a request: 4 MiB through a socket take milliseconds
	idlePatience = time.Minute
)

// writePatience bounds the wait for a reader to take the next piece of its reply, which holds a connection of the
// database. It is a variable for tests.
var writePatience = 10 * time.Second

// localHost is the only accepted Host of a request. A page in a browser that reaches the socket through some forwarder
// would send another.
const localHost = "memgauge.local"

// Host is localHost, for who hands a Handler requests that came another way.
const Host = localHost

// maxBody bounds a request: a statement and a little JSON around it, escaped at worst sixfold.
const maxBody = 6*maxSQL + 1<<16

// Handler serves a session over HTTP. finish is called when memgauge run reports that the command has ended; the
// collector then ends in its own time.
func Handler(s Session, finish func()) http.Handler {
	h := &handler{s: s}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/query", h.query)
	mux.HandleFunc("GET /v1/tables", func(w http.ResponseWriter, r *http.Request) {
		whole(w)
		t, err := s.Tables(r.Context(), r.URL.Query().Has("all"))
		reply(w, TablesReply{t}, err)
	})
	mux.HandleFunc("GET /v1/summary", told(s.Summary))
	mux.HandleFunc("GET /v1/about", told(s.About))
	mux.HandleFunc("GET /v1/end", told(s.End))
	mux.HandleFunc("GET /v1/where", told(s.Where))
	mux.HandleFunc("POST /v1/processes", asked(s.Processes))
	mux.HandleFunc("POST /v1/leak", asked(s.Leak))
	mux.HandleFunc("POST /v1/oom", asked(s.OOM))
	mux.HandleFunc("POST /v1/census", asked(s.Census))
	mux.HandleFunc("POST /v1/backtrace", asked(s.Backtrace))
	mux.HandleFunc("POST /v1/blocks", asked(s.Blocks))
	mux.HandleFunc("POST /v1/record", asked(s.Record))
	mux.HandleFunc("POST /v1/events", h.events)
	mux.HandleFunc("POST /v1/snapshot", h.snapshot)
	mux.HandleFunc("POST /v1/eval", h.eval)
	mux.HandleFunc("POST /v1/interrupt", asked(func(_ context.Context, q InterruptRequest) (struct{}, error) {
		h.evals.interrupt(q.Key)
		return struct{}{}, nil
	}))
	outcome := told(s.Outcome)
	mux.HandleFunc("POST /v1/finish", func(w http.ResponseWriter, r *http.Request) {
		outcome(w, r)
		finish()
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != localHost {
			http.Error(w, "wrong host", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		// a connection of ours has deadlines
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readPatience))
		mux.ServeHTTP(w, r)
	})
}

// handler serves the requests that are more than a JSON document and a JSON reply.
type handler struct {
	s     Session
	evals running
}

// told serves a GET without parameters.
func told[T any](ask func(context.Context) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		whole(w)
		v, err := ask(r.Context())
		reply(w, v, err)
	}
}

// asked serves a request that is a JSON document with a JSON reply.
func asked[Q, T any](ask func(context.Context, Q) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := take(w, r, &q); err != nil {
			reply(w, nil, err)
			return
		}
		v, err := ask(r.Context(), q)
		reply(w, v, err)
	}
}

// take decodes a request.
func take(w http.ResponseWriter, r *http.Request, q any) error {
	err := json.NewDecoder(r.Body).Decode(q)
	whole(w)
	return err
}

func (h *handler) query(w http.ResponseWriter, r *http.Request) {
	var q QueryRequest
	if err := take(w, r, &q); err != nil {
		reply(w, nil, err)
		return
	}
	body := &lazyBody{w: w}
	q.Note = func(text string) { w.Header().Set(noteHeader, strings.Join(strings.Fields(text), " ")) }
	err := h.s.Query(r.Context(), q, body)
	switch {
	case err != nil && !body.begun:
		reply(w, nil, err)
	case err != nil:
		b, _ := json.Marshal(Pack(err))
		w.Header().Set(errorTrailer, string(b))
	case !body.begun:
		w.WriteHeader(http.StatusOK)
	}
	patient(w) // for what is still buffered
}

func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	var q EventsRequest
	if err := take(w, r, &q); err != nil {
		reply(w, nil, err)
		return
	}
	out := newFrames(w)
	out.end(nil, h.s.Events(r.Context(), q, func(e Event) error { return out.send(frame{Event: &e}) }))
}

// snapshot leaves the file in the session's directory, or sends it (?bytes).
func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("bytes") {
		asked(func(ctx context.Context, q SnapshotRequest) (SnapshotReply, error) {
			return h.s.Snapshot(ctx, q, nil)
		})(w, r)
		return
	}
	var q SnapshotRequest
	if err := take(w, r, &q); err != nil {
		reply(w, nil, err)
		return
	}
	out := newFrames(w)
	told, err := h.s.Snapshot(r.Context(), q, out)
	out.end(told, err)
}

// eval ends with the connection. A client that wants the outcome sends an InterruptRequest instead of closing it.
func (h *handler) eval(w http.ResponseWriter, r *http.Request) {
	var q EvalRequest
	if err := take(w, r, &q); err != nil {
		reply(w, nil, err)
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer h.evals.add(q.Key, stop)()
	out := newFrames(w)
	told, err := h.s.Eval(ctx, q, EvalOutput{
		Chosen: func(list []Process) error { return out.send(frame{Chosen: list}) },
		Print: func(process int, stderr bool, text []byte) error {
			return out.send(frame{Output: &output{process, stderr, text}})
		},
	})
	out.end(told, err)
}

// lazyBody declares the trailer with the first byte: until then a failure can still be a plain error reply.
type lazyBody struct {
	w     http.ResponseWriter
	begun bool
}

func (b *lazyBody) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.w.Header().Set("Content-Type", "application/octet-stream")
		b.w.Header().Set("Trailer", errorTrailer)
	}
	patient(b.w)
	return b.w.Write(p)
}

// patient extends the deadline for the next piece of a reply.
func patient(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writePatience))
}

// whole removes the read deadline after the request has been read: further reads only notice the client's end.
func whole(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	patient(w)
}

var _ io.Writer = (*lazyBody)(nil)

func reply(w http.ResponseWriter, v any, err error) {
	patient(w)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		status := http.StatusUnprocessableEntity
		if errors.Is(err, ErrRefused) {
			status = http.StatusForbidden // whoever passes answers on counts them
		}
		w.WriteHeader(status)
		v = Pack(err)
	}
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// Server makes an HTTP server with the bounds that a local service needs; base ends its requests.
func Server(base context.Context, h http.Handler) *http.Server {
	return &http.Server{Handler: h, MaxHeaderBytes: 1 << 14, ReadHeaderTimeout: readPatience, IdleTimeout: idlePatience,
		BaseContext: func(net.Listener) context.Context { return base }}
}

// Fail answers a request with an error.
func Fail(w http.ResponseWriter, err error) { reply(w, nil, err) }
