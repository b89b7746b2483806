package api

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/detect"
)

// errorTrailer carries the error of a query that had already begun to answer.
const errorTrailer = "Memgauge-Error"

// noteHeader carries what the user must know about an answer.
const noteHeader = "Memgauge-Note"

const (
	readPatience = 30 * time.Second // for a request to come whole: 4 MiB through a socket take milliseconds
	idlePatience = time.Minute
)

// writePatience is for a reader to take some more of its answer, which holds a connection of the database; a variable,
// for tests.
var writePatience = 10 * time.Second

// localHost is what a request must name as its host: a page in a browser that got hold of the socket through some
// forwarder would name another.
const localHost = "memgauge.local"

// maxBody bounds a request: a statement and a little JSON around it, escaped at worst sixfold.
const maxBody = 6*maxSQL + 1<<16

// Handler serves the service over HTTP. finish is called when memgauge run reports that the command has ended; the
// collector then ends in its own time.
func Handler(s *Service, finish func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/query", func(w http.ResponseWriter, r *http.Request) { s.serveQuery(w, r) })
	mux.HandleFunc("GET /v1/tables", func(w http.ResponseWriter, r *http.Request) {
		whole(w)
		t, err := s.Tables(r.Context(), r.URL.Query().Has("all"))
		reply(w, TablesReply{t}, err)
	})
	mux.HandleFunc("POST /v1/census", func(w http.ResponseWriter, r *http.Request) {
		var q CensusRequest
		err := json.NewDecoder(r.Body).Decode(&q)
		whole(w)
		var c CensusReply
		if err == nil {
			c, err = s.Census(r.Context(), q)
		}
		reply(w, c, err)
	})
	mux.HandleFunc("GET /v1/summary", func(w http.ResponseWriter, r *http.Request) {
		whole(w)
		sum, err := s.Summary(r.Context())
		reply(w, sum, err)
	})
	mux.HandleFunc("POST /v1/leak", func(w http.ResponseWriter, r *http.Request) {
		var q LeakRequest
		err := json.NewDecoder(r.Body).Decode(&q)
		whole(w)
		var report detect.Report
		if err == nil {
			report, err = s.Leak(r.Context(), q)
		}
		reply(w, report, err)
	})
	mux.HandleFunc("POST /v1/finish", func(w http.ResponseWriter, r *http.Request) {
		whole(w)
		sum, err := s.Outcome(r.Context())
		reply(w, sum, err)
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

func (s *Service) serveQuery(w http.ResponseWriter, r *http.Request) {
	var q QueryRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		reply(w, nil, err)
		return
	}
	whole(w)
	body := &lazyBody{w: w}
	q.Note = func(text string) { w.Header().Set(noteHeader, strings.Join(strings.Fields(text), " ")) }
	err := s.Query(r.Context(), q, body)
	switch {
	case err != nil && !body.begun:
		reply(w, nil, err)
	case err != nil:
		b, _ := json.Marshal(pack(err))
		w.Header().Set(errorTrailer, string(b))
	case !body.begun:
		w.WriteHeader(http.StatusOK)
	}
	patient(w) // for what is still buffered
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

// patient gives the reader time for the next piece.
func patient(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writePatience))
}

// whole says that the request has been read: from now on only the client's end is waited for.
func whole(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	patient(w)
}

var _ io.Writer = (*lazyBody)(nil)

func reply(w http.ResponseWriter, v any, err error) {
	patient(w)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		v = pack(err)
	}
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// Server makes an HTTP server with the bounds that a local service needs; base ends its requests.
func Server(base context.Context, h http.Handler) *http.Server {
	return &http.Server{Handler: h, MaxHeaderBytes: 1 << 14, ReadHeaderTimeout: readPatience, IdleTimeout: idlePatience,
		BaseContext: func(net.Listener) context.Context { return base }}
}
