package sock

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// TestCrowd: of strangers' connections the newest stay open, and those of who may ask all do.
func TestCrowd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := NewCrowd(l, 4)
	handler := func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/friend" {
			Vouch(r)
		}
	}
	server := &http.Server{ConnContext: WithGuest, Handler: http.HandlerFunc(handler)}
	go func() { _ = server.Serve(c) }()
	t.Cleanup(func() { _ = server.Close() })
	ask := func(conn net.Conn, path string) error {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		_, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return err
	}
	var conns []net.Conn
	come := func(path string) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			err = ask(conn, path)
		}
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	come("/friend")
	for range 6 {
		come("/")
	}
	for i, conn := range conns {
		if err := ask(conn, "/"); (err == nil) != (i == 0 || i > 2) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	conns[6].Close()
	come("/")
	if n := c.guests.Len(); n > 4 {
		t.Errorf("%d strangers", n)
	}
}
