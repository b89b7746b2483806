package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/record/store"
)

// A client that asks for much and reads nothing is cut off, and what it held of the database is free again.
func TestStalledReaderIsCutOff(t *testing.T) {
	t.Cleanup(api.SetWritePatience(200 * time.Millisecond))
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "session.duckdb"), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	socket := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := api.Server(t.Context(), api.Handler(&service.Service{Open: service.Opened(db)}, api.Owner, func() {}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Close(); <-served }()

	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := `{"sql": "SELECT repeat('x', 1000) FROM range(100000000)", "format": "csv"}`
	fmt.Fprintf(c, "POST /v1/query HTTP/1.1\r\nHost: memgauge.local\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	first := make([]byte, 12)
	if _, err := io.ReadFull(c, first); err != nil || !strings.Contains(string(first), "200") {
		t.Fatalf("%q, %v", first, err)
	}
	for end := time.Now().Add(time.Minute); db.Oldest() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the question is still open")
		}
	}
	var answer strings.Builder // another is served as ever
	if err := api.NewClient(socket).Query(context.Background(), api.QueryRequest{SQL: "SELECT 42 AS n", Format: "csv"},
		&answer); err != nil || answer.String() != "n\n42\n" {
		t.Errorf("afterwards: %q, %v", answer.String(), err)
	}
}
