package watch

import (
	"fmt"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

func told(node, id, name string) fanout.Session {
	return fanout.Session{Node: node, About: api.About{ID: id, Name: name}}
}

// TestSessionsOfOthers: a node that tells of another's session takes no page's place, and one that tells of ever new
// ones makes no page remember them all, nor forget those of others.
func TestSessionsOfOthers(t *testing.T) {
	f := &farSessions{from: &source.Source{Fleet: &source.Hub{Asker: fanout.NewAsker(&bus.Conn{}, time.Second)}},
		known: map[string]map[string]heard{}}
	f.keep([]fanout.Session{told("n1", "s", "honest")})
	for i := range 10 {
		list := []fanout.Session{told("evil", "s", "hostile")}
		for k := range maxKnown {
			list = append(list, told("evil", fmt.Sprint(i, " ", k), "hostile"))
		}
		f.keep(list)
	}
	if n := len(f.known["evil"]); n > maxKnown+1 {
		t.Errorf("%d sessions of one node are remembered", n)
	}
	s, err := f.Open(t.Context(), keyOf(told("n1", "s", "")))
	if err != nil {
		t.Fatal(err)
	}
	if about, err := s.About(t.Context()); err != nil || about.Name != "honest" || about.ID != "n1~s" {
		t.Errorf("%+v, %v", about, err)
	}
}
