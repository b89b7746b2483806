package node

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/test/rights"
)

// attacker is somebody whose questions the hub carries to a node, whatever they are.
type attacker struct {
	t    *testing.T
	conn *bus.Conn // the hub's
	asks *bus.Conn
	node *Node
	s    *rights.Session
}

func newAttacker(t *testing.T, allow ...string) *attacker {
	t.Helper()
	dir, err := rootdir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	log := slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	cert, pin, err := bus.Identity(dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	o := bus.ServerOptions{Dir: dir, Addr: "127.0.0.1:0", Cert: cert, Join: bus.NewToken(bus.Join, pin),
		Ask: bus.NewToken(bus.Asks, pin), MaxDisk: 1 << 30, Log: log,
		Known: func(string, string, netip.Addr) error { return nil }}
	server, err := bus.StartServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	dial := func(d bus.DialOptions) *bus.Conn {
		d.URL = server.Addr()
		c, err := bus.Dial(d)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	x := &attacker{t: t, s: &rights.Session{}, asks: dial(bus.DialOptions{Token: o.Ask})}
	if x.conn, err = server.Connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.conn.Close)
	x.node = &Node{desk: newDesk("n1", log), o: Options{Name: "n1", Log: log}}
	if x.node.o.Allow, err = api.Allowed(allow); err != nil {
		t.Fatal(err)
	}
	n := x.node
	n.work, n.sessions.n = n.answer, n
	n.sessions.list = []ask.Target{ask.Far(api.About{ID: "1", Live: true, Dir: t.TempDir()}, -1,
		func() api.Session { return x.s })}
	n.sessions.at = time.Now().Add(time.Hour) // nobody looks for others
	n.conn = dial(bus.DialOptions{Token: o.Join, Node: n.o.Name, Key: dir.Path() + "/n1.key"})
	stop, err := n.hear(t.Context(), n.subjects())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.conn.Flush(t.Context()); err != nil { // now the server knows what it hears
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); n.answers.Wait(); n.sessions.close() })
	return x
}

// send asks without waiting.
func (x *attacker) send(subject string, q fanout.Question) {
	x.t.Helper()
	q.ID, q.Ear = rand.Text(), x.conn.Ear()
	text, err := json.Marshal(q)
	if err == nil {
		err = x.conn.Send(subject, "", text)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// ask sends a question and waits for its end: the status of its answer, or the node's own error.
func (x *attacker) ask(subject string, r api.Route) (status int, refusal *api.Error) {
	x.t.Helper()
	q := fanout.Question{ID: rand.Text(), Ear: x.conn.Ear(), Method: r.Method, Path: r.Target,
		Body: []byte(rights.Body(r))}
	parts := make(chan fanout.Part, 64)
	stop, err := x.conn.Hear(bus.Answers(q.Ear, q.ID), func(m bus.Msg) {
		if p, err := fanout.DecodePart(m.Data); err == nil {
			parts <- p
		}
	})
	if err != nil {
		x.t.Fatal(err)
	}
	defer stop()
	text, err := json.Marshal(q)
	if err == nil {
		err = x.conn.Send(subject, "", text)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	for late := time.After(time.Minute); ; {
		select {
		case p := <-parts:
			if p.Kind == fanout.Head && p.Status != 0 {
				status = p.Status
			}
			if p.Kind == fanout.Done {
				return status, p.Error
			}
		case <-late:
			x.t.Fatalf("no answer to %q %q", r.Method, r.Target)
		}
	}
}

// refused asks on a subject. A node asks its sessions by itself who lives in them, to answer any question.
func (x *attacker) refused(subject string) func(api.Route) bool {
	return func(r api.Route) bool {
		status, refusal := x.ask(subject, r)
		if refusal != nil && !errors.Is(refusal, api.ErrForbidden) {
			x.t.Errorf("%s: %v", r.Target, refusal)
		}
		return refusal != nil || status != http.StatusOK
	}
}

// TestRightsOfANode: what may be asked depends on the subject, and on what the node's user has allowed.
func TestRightsOfANode(t *testing.T) {
	x := newAttacker(t, "eval")
	rights.Each(t, rights.Ask, x.s, x.refused(bus.Ask("n1")))
	rights.Each(t, rights.Ask, x.s, x.refused(bus.Ask("")))
	rights.Each(t, rights.Allowed, x.s, x.refused(bus.Grant("n1")))
	x = newAttacker(t, "record")
	rights.Each(t, rights.Record, x.s, x.refused(bus.Grant("n1")))
	x = newAttacker(t)
	rights.Each(t, rights.Grant, x.s, func(r api.Route) bool {
		x.send(bus.Grant("n1"), fanout.Question{Method: r.Method, Path: r.Target, Body: []byte("{}")})
		if status, err := x.ask(bus.Ask("n1"), api.Route{Method: "GET", Target: "/v1/end"}); status != 200 {
			t.Errorf("the question behind it: %d, %v", status, err)
		}
		return x.s.Reached() == "processes end" // the answer to the second alone
	})
}

// TestNodeRefusesOtherSpellings: whatever a parser could take for a question that changes something is refused by the
// node, counted, and told, also where the question itself would be allowed.
func TestNodeRefusesOtherSpellings(t *testing.T) {
	x := newAttacker(t, "eval")
	for _, subject := range []string{bus.Ask("n1"), bus.Grant("n1")} {
		for _, r := range rights.Attacks {
			before := x.node.refused.Load()
			_, refusal := x.ask(subject, r)
			if reached := x.s.Reached(); refusal == nil || reached != "" || x.node.refused.Load() != before+1 {
				t.Errorf("%q %q on %s: %v, reached %q, counted %d", r.Method, r.Target, subject, refusal, reached,
					x.node.refused.Load()-before)
			}
		}
	}
	if status, refusal := x.ask(bus.Ask("n1"), api.Route{Method: "POST", Target: "/v1/later"}); refusal != nil ||
		status != http.StatusNotFound {
		t.Errorf("a question of another version: %d, %v", status, refusal)
	}
}

// TestFarSessionIsTold: who asks for what was not allowed hears so, from the node or before anything is sent.
func TestFarSessionIsTold(t *testing.T) {
	x := newAttacker(t, "record")
	stop, err := x.conn.HearAskers(func(m bus.Msg) {
		_, what := bus.HubOf(m.Subject)
		if to, ok := bus.OnwardOf(what); ok {
			_ = x.conn.Send(to.Subject, "", m.Data)
			_ = x.conn.Reply(m, []byte("{}"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s := fanout.NewAsker(x.asks, time.Minute).Open(fanout.Session{Node: "n1", About: api.About{ID: "1"}})
	defer s.Close()
	if _, err := s.Record(t.Context(), api.RecordRequest{}); err != nil {
		t.Errorf("what is allowed: %v", err)
	}
	if _, err := s.Eval(t.Context(), api.EvalRequest{}, api.EvalOutput{}); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("eval: %v", err)
	}
	if _, err := s.Census(t.Context(), api.CensusRequest{Deep: true}); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("a deep census: %v", err)
	}
	if _, err := s.Census(t.Context(), api.CensusRequest{}); err != nil {
		t.Errorf("a census: %v", err)
	}
}
