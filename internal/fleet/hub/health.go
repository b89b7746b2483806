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
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for probes at %s: %w", addr, err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.conn.Up() {
			http.Error(w, "the bus is away", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	s := &http.Server{Handler: routes, ReadTimeout: healthTime, WriteTimeout: healthTime, MaxHeaderBytes: 4 << 10}
	s.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer probes at %s: %w", addr, err)
	}
	return nil
}
