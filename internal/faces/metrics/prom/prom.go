// Package prom serves a session's metrics to Prometheus, in OpenMetrics' format or the older text. A server on a
// loopback address answers only requests whose Host is one, so that a web page can't read the metrics under a name of
// its own (DNS rebinding).
package prom

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/faces/metrics"
)

// Address completes the address to listen on: without a host it is loopback's.
func Address(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "", remedy.Add(fmt.Errorf("%q is not an address", addr),
			"write :9400 for this machine alone, or HOST:PORT")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Server answers scrapes of one source.
type Server struct {
	source   *metrics.Source
	listener net.Listener
	loopback bool
	token    string // that a scrape has to bring; "": none
}

// Listen binds the address. The error says why that fails.
func Listen(ctx context.Context, addr string, source *metrics.Source) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, remedy.Add(fmt.Errorf("listen on %s: %w", addr, err), "name another port, such as 127.0.0.1:9401")
	}
	at, _ := l.Addr().(*net.TCPAddr)
	return &Server{source: source, listener: l, loopback: at != nil && at.IP.IsLoopback()}, nil
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Open reports whether other machines can reach the server.
func (s *Server) Open() bool { return !s.loopback }

// Close releases the address, if Serve has not done so.
func (s *Server) Close() error { return s.listener.Close() }

const (
	headerPatience = 5 * time.Second  // of a scraper that sends nothing
	writePatience  = 30 * time.Second // to read the session and for a slow reader to take 1 MB
	idlePatience   = 2 * time.Minute  // between scrapes over one connection
	goodbye        = 2 * time.Second  // for scrapes that are being answered

	maxHeader    = 1 << 14 // bytes of a request
	maxStrangers = 512     // connections at a time of those who have shown no token: each takes some 15 KiB
)

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: headerPatience, WriteTimeout: writePatience,
		IdleTimeout: idlePatience, MaxHeaderBytes: maxHeader, ConnContext: sock.WithGuest,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		if server.Shutdown(late) != nil {
			_ = server.Close() // they were given their time
		}
	})
	err := server.Serve(sock.NewCrowd(s.listener, maxStrangers))
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", s.Addr(), err)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch {
	case s.loopback && !names(q.Host):
		http.Error(w, "this address is for this machine alone", http.StatusForbidden)
	case !s.knows(q):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the token is missing or another one", http.StatusUnauthorized)
	case q.Method != http.MethodGet && q.Method != http.MethodHead:
		http.Error(w, "metrics are only read", http.StatusMethodNotAllowed)
	case q.URL.Path == "/":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!doctype html><title>memgauge</title><a href=\"/metrics\">metrics</a>\n"))
	case q.URL.Path != "/metrics":
		http.NotFound(w, q)
	default:
		if s.token != "" {
			sock.Vouch(q)
		}
		s.scrape(w, q)
	}
}

// Require has each scrape bring a token, as `Authorization: Bearer TOKEN`.
func (s *Server) Require(token string) { s.token = token }

func (s *Server) knows(q *http.Request) bool {
	want := []byte("Bearer " + s.token)
	return s.token == "" || subtle.ConstantTimeCompare([]byte(q.Header.Get("Authorization")), want) == 1
}

// names reports whether a request's Host is this machine's own.
func names(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// scrape reads the session. If that fails, the scrape fails, so that Prometheus' own metric `up` shows it.
func (s *Server) scrape(w http.ResponseWriter, q *http.Request) {
	reading, err := s.source.Read(q.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer(w, q, reading)
}
