package webhook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) { env.Leftovers(m) }

// address answers with the given codes, then with 200, and keeps what it was sent.
type address struct {
	*httptest.Server
	mu     sync.Mutex
	codes  []int
	bodies []string
}

func listen(t *testing.T, codes ...int) *address {
	a := &address{codes: codes}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.codes) > 0 {
			w.WriteHeader(a.codes[0])
			a.codes = a.codes[1:]
			return
		}
		body, _ := io.ReadAll(r.Body)
		a.bodies = append(a.bodies, string(body))
	}))
	t.Cleanup(a.Close)
	return a
}

// send sends the messages and returns the sender when all is done.
func send(ctx context.Context, url, form string, texts ...string) *Sender {
	s := New(url, form, "guard")
	s.firstGap = time.Millisecond
	for _, text := range texts {
		s.Tell(Message{Session: "s", Host: "h", Time: time.Unix(0, 0).UTC(), Text: text})
	}
	s.Finish()
	s.Run(ctx)
	s.client.CloseIdleConnections()
	return s
}

func TestForms(t *testing.T) {
	a := listen(t)
	send(t.Context(), a.URL, "json", "one")
	send(t.Context(), a.URL, "slack", "two")
	var generic struct {
		Schema               int `json:"schema_version"`
		Session, Event, Text string
	}
	if err := json.Unmarshal([]byte(a.bodies[0]), &generic); err != nil || generic.Schema != 1 ||
		generic.Session != "s" || generic.Event != "guard" || generic.Text != "one" {
		t.Errorf("%s, %v", a.bodies[0], err)
	}
	if a.bodies[1] != `{"text":"memgauge s on h: two"}` {
		t.Error(a.bodies[1])
	}
}

func TestBackOff(t *testing.T) {
	a := listen(t, 500, 503, 429)
	if s := send(t.Context(), a.URL, "json", "one", "two"); s.Sent != 2 || s.Lost != 0 || len(a.bodies) != 2 ||
		!strings.Contains(a.bodies[0], "one") {
		t.Errorf("sent %d, lost %d: %v", s.Sent, s.Lost, a.bodies)
	}
	a = listen(t, 500, 500, 500, 500, 500, 500)
	if s := send(t.Context(), a.URL, "json", "one", "two"); s.Sent != 1 || s.Lost != 1 {
		t.Errorf("given up: sent %d, lost %d", s.Sent, s.Lost)
	}
	a = listen(t, 404)
	if s := send(t.Context(), a.URL, "json", "one"); s.Lost != 1 ||
		s.Err.Error() != "webhook: the address answers 404 Not Found" {
		t.Errorf("refused: %v", s.Err)
	}
}

// TestNobodyThere: an address that is a secret is in no error, and the end waits for nobody.
func TestNobodyThere(t *testing.T) {
	a := listen(t)
	a.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := send(ctx, a.URL+"/secret", "json", "one", "two")
	if s.Lost != 2 || strings.Contains(s.Err.Error(), "secret") {
		t.Errorf("lost %d: %v", s.Lost, s.Err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	s := New("http://127.0.0.1:1", "json", "guard")
	lost := 0
	for range maxQueue + 10 {
		if s.Tell(Message{}) {
			lost++
		}
	}
	if lost != 10 {
		t.Errorf("%d lost, want 10", lost)
	}
}
