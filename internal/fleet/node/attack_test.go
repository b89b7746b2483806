package node_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/test/rights"
)

// TestAttacksThroughAHub: who has a hub's ask token gets no code into a training by another spelling, where neither hub
// nor node allows any. The hub counts what was tried.
func TestAttacksThroughAHub(t *testing.T) {
	h := newHouse(t)
	h.start()
	m := newMachine(t, h, "n1")
	x := m.train(1, 1, 0)
	x.makes(1)
	m.start()
	until(t, "the node", func() bool { s := h.Status(t.Context()); return len(s.Nodes) == 1 && s.Nodes[0].Up })
	token, err := bus.ReadToken(hub.AskToken(h.dir), false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Dial(bus.DialOptions{URL: h.addr, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, r := range append(rights.Attacks, api.Route{Method: "POST", Target: "/v1/eval"}) {
		q := fanout.Question{ID: rand.Text(), Ear: conn.Ear(), Method: r.Method, Path: r.Target,
			Body: []byte(`{"code":"1","place":"main","choice":{"all":true}}`)}
		done := make(chan *api.Error, 8)
		stop, err := conn.Hear(bus.Answers(q.Ear, q.ID), func(msg bus.Msg) {
			switch p, err := fanout.DecodePart(msg.Data); {
			case err != nil:
				done <- &api.Error{Message: err.Error()}
			case p.Kind == fanout.Head: // a session has begun to answer
				done <- nil
			case p.Kind == fanout.Done:
				done <- p.Error
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(q)
		if err == nil {
			err = conn.Send(bus.Via(conn.Place(), bus.Ask("n1")), "", text)
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-done:
			if got == nil || !errors.Is(got, api.ErrForbidden) {
				t.Errorf("%q %q: %v", r.Method, r.Target, got)
			}
		case <-time.After(time.Minute):
			t.Errorf("%q %q: no answer", r.Method, r.Target)
		}
		stop()
	}
	until(t, "the hub to count them", func() bool {
		return h.Status(t.Context()).Nodes[0].Refused == int64(len(rights.Attacks))+1
	})
}
