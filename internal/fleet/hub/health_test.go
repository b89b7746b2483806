package hub

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
)

// TestHealth: a probe is told whether the bus carries, and nothing else.
func TestHealth(t *testing.T) {
	h, err := Open(Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxDisk: 1 << 20,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithCancel(t.Context())
	addr, done := freeAddr(t), make(chan error)
	go func() { done <- h.ServeHealth(ctx, addr) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	probe := func(path string) int {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	until(t, "an answer", func() bool { return probe("/healthz") == http.StatusOK })
	if code := probe("/"); code != http.StatusNotFound {
		t.Errorf("/: %d", code)
	}
	if refused := h.server.Refused(); len(refused) > 0 {
		t.Errorf("refused: %v", refused)
	}
	h.conn.Close()
	if code := probe("/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("without a bus: %d", code)
	}
}
