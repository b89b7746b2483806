package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// healthTime bounds all of a probe's request: it is one line, and so is the answer.
const healthTime = 2 * time.Second

// ServeHealth answers GET /healthz at an address until ctx ends: 200 where the hub's bus carries, else 503. A hub whose
// disk is full is healthy: to start it anew would help nobody. Nothing else is to be had, so no token is asked for.
func (h *Hub) ServeHealth(ctx context.Context, addr string) error {
	return serve(ctx, addr, healthTime, "GET /healthz", h.health)
}

// ServeMetrics answers GET /metrics at an address until ctx ends. Names of jobs and nodes are told to whoever asks
// there.
func (h *Hub) ServeMetrics(ctx context.Context, addr string) error {
	return serve(ctx, addr, metricsTime, "GET /metrics", h.metrics)
}

func (h *Hub) health(w http.ResponseWriter, _ *http.Request) {
	if !h.conn.Up() {
		http.Error(w, "the bus is away", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// serve answers one kind of request at an address.
func serve(ctx context.Context, addr string, most time.Duration, what string, answer http.HandlerFunc) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for %s at %s: %w", what, addr, err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc(what, answer)
	s := &http.Server{Handler: routes, ReadTimeout: most, WriteTimeout: most, MaxHeaderBytes: 4 << 10}
	s.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer %s at %s: %w", what, addr, err)
	}
	return nil
}
