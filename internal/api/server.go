package api

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"

	"github.com/memgauge/memgauge/internal/detect"
)

// errorTrailer carries the error of a query that had already begun to answer.
const errorTrailer = "Memgauge-Error"

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
		t, err := s.Tables(r.Context(), r.URL.Query().Has("all"))
		reply(w, TablesReply{t}, err)
	})
	mux.HandleFunc("POST /v1/census", func(w http.ResponseWriter, r *http.Request) {
		var q CensusRequest
		err := json.NewDecoder(r.Body).Decode(&q)
		var c CensusReply
		if err == nil {
			c, err = s.Census(r.Context(), q)
		}
		reply(w, c, err)
	})
	mux.HandleFunc("GET /v1/summary", func(w http.ResponseWriter, r *http.Request) {
		sum, err := s.Summary(r.Context())
		reply(w, sum, err)
	})
	mux.HandleFunc("POST /v1/leak", func(w http.ResponseWriter, r *http.Request) {
		var q LeakRequest
		err := json.NewDecoder(r.Body).Decode(&q)
		var report detect.Report
		if err == nil {
			report, err = s.Leak(r.Context(), q)
		}
		reply(w, report, err)
	})
	mux.HandleFunc("POST /v1/finish", func(w http.ResponseWriter, r *http.Request) {
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
		mux.ServeHTTP(w, r)
	})
}

func (s *Service) serveQuery(w http.ResponseWriter, r *http.Request) {
	var q QueryRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		reply(w, nil, err)
		return
	}
	body := &lazyBody{w: w}
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
	return b.w.Write(p)
}

var _ io.Writer = (*lazyBody)(nil)

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		v = pack(err)
	}
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// Server makes an HTTP server with the bounds that a local service needs; base ends its requests.
func Server(base context.Context, h http.Handler) *http.Server {
	return &http.Server{Handler: h, MaxHeaderBytes: 1 << 14, BaseContext: func(net.Listener) context.Context { return base }}
}
