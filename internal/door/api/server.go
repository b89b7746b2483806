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

	"github.com/memgauge/memgauge/internal/base/plain"
)

// errorTrailer carries the error of a query whose reply had already begun.
const errorTrailer = "Memgauge-Error"

// noteHeader carries QueryRequest.Note's remark.
const noteHeader = "Memgauge-Note"

// maxNote bounds a remark, in bytes: some tell the names of files, and what is wrong with them.
const maxNote = 64 << 10

// inHeader is a remark as a header may have it. Words in it may come from anybody's file, and one control character
// would end the whole answer.
func inHeader(text string) string {
	text = plain.Line(strings.Join(strings.Fields(text), " "))
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "") + "…"
	}
	return text
}

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

// Handler serves a session over HTTP, within the rights of whoever asks. finish is called when memgauge run reports
// that the command has ended; the collector then ends in its own time.
func Handler(s Session, rights Rights, finish func()) http.Handler {
	return new(Evals).Handler(s, rights, finish)
}

// Handler is the function of that name, with evals that other handlers interrupt too.
func (r *Evals) Handler(s Session, rights Rights, finish func()) http.Handler {
	h := &handler{s: Limit(s, rights), finish: finish, evals: r}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != localHost {
			http.Error(w, "wrong host", http.StatusForbidden)
			return
		}
		found, err := routed(r)
		switch {
		case errors.Is(err, ErrUnknown):
			http.Error(w, "no such question", http.StatusNotFound)
			return
		case err == nil && !rights.Has(found.Needs):
			err = forbidden(strings.TrimPrefix(found.Target, "/v1/"))
		}
		if err != nil {
			reply(w, nil, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		// a connection of ours has deadlines
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readPatience))
		found.serve(h, w, r)
	})
}

// handler answers the questions of routes.
type handler struct {
	s      Session
	finish func()
	evals  *Evals
}

// told serves a GET without parameters.
func told[T any](ask func(Session, context.Context) (T, error)) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) {
		whole(w)
		v, err := ask(h.s, r.Context())
		reply(w, v, err)
	}
}

// asked serves a request that is a JSON document with a JSON reply.
func asked[Q, T any](ask func(Session, context.Context, Q) (T, error)) func(*handler, http.ResponseWriter,
	*http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := take(w, r, &q); err != nil {
			reply(w, nil, err)
			return
		}
		v, err := ask(h.s, r.Context(), q)
		reply(w, v, err)
	}
}

// take decodes a request: one document, and nothing behind it.
func take(w http.ResponseWriter, r *http.Request, q any) error {
	from := json.NewDecoder(r.Body)
	err := from.Decode(q)
	if err == nil {
		if _, end := from.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("something follows the request")
		}
	}
	whole(w)
	return err
}

func tables(all bool) func(*handler, http.ResponseWriter, *http.Request) {
	return told(func(s Session, ctx context.Context) (TablesReply, error) {
		t, err := s.Tables(ctx, all)
		return TablesReply{t}, err
	})
}

func (h *handler) interrupt(w http.ResponseWriter, r *http.Request) {
	asked(func(_ Session, _ context.Context, q InterruptRequest) (struct{}, error) {
		h.evals.interrupt(q.Key)
		return struct{}{}, nil
	})(h, w, r)
}

// finished answers the end of the command with the outcome.
func (h *handler) finished(w http.ResponseWriter, r *http.Request) {
	told(Session.Outcome)(h, w, r)
	h.finish()
}

func (h *handler) query(w http.ResponseWriter, r *http.Request) {
	var q QueryRequest
	if err := take(w, r, &q); err != nil {
		reply(w, nil, err)
		return
	}
	body := &lazyBody{w: w}
	q.Note = func(text string) { w.Header().Add(noteHeader, inHeader(text)) }
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

// snapshot leaves the file in the session's directory.
func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) {
	asked(func(s Session, ctx context.Context, q SnapshotRequest) (SnapshotReply, error) {
		return s.Snapshot(ctx, q, nil)
	})(h, w, r)
}

// snapshotBytes sends the file.
func (h *handler) snapshotBytes(w http.ResponseWriter, r *http.Request) {
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
		if errors.Is(err, ErrRefused) || errors.Is(err, ErrForbidden) {
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
