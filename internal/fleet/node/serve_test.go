package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// TestSeats: of one who asks, the lake works on one question at a time and keeps a part of the line, so that others are
// answered meanwhile.
func TestSeats(t *testing.T) {
	began, free := make(chan string, 100), make(chan struct{})
	rows := func(of fanout.Select, _ api.Rights) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			began <- of.Job
			if of.Job == "greedy" {
				<-free
			}
		})
	}
	x := newAttacker(t)
	l := NewLake(x.conn, slog.New(slog.DiscardHandler), rows, func() {})
	ask := func(place string, n int) {
		text, err := json.Marshal(fanout.Question{ID: fmt.Sprint(place, n), Method: "POST", Path: "/v1/query",
			Body: []byte(`{}`), Of: fanout.Select{Job: place}})
		if err != nil {
			t.Fatal(err)
		}
		l.Take(t.Context(), place, bus.Msg{Data: text})
	}
	for i := range 2 * seatLine {
		ask("greedy", i)
	}
	if first := got(t, began); first != "greedy" {
		t.Fatal(first)
	}
	if n := len(l.line); n != seatLine {
		t.Errorf("%d of its questions are in the line", n)
	}
	for i := range 3 {
		ask("other", i)
		if next := got(t, began); next != "other" {
			t.Errorf("%s came next", next)
		}
	}
	close(free)
	l.Wait()
	if n := len(began); n != seatLine-1 || len(l.line) > 0 || len(l.room) > 0 {
		t.Errorf("%d were answered then; %d are left in the line", n, len(l.line))
	}
}
