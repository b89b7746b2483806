package bus

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/memgauge/memgauge/test/env"
)

// TestCopies: who hears one subject many times over has nothing multiplied: the hub says nothing there, neither an
// answer, nor a question, nor that a frame is kept. One that hears it once has an answer.
func TestCopies(t *testing.T) {
	hub, n1, _ := shipping(t)
	asks := env.Must[*Conn](t)(hub.inside.Connect())
	defer asks.Close()
	answer := func(c *Conn, subject, reply string) error {
		said := make(chan error, 1)
		stop := env.Must[func()](t)(hub.Hear(subject, func(m Msg) { said <- hub.Reply(m, []byte("welcome")) }))
		defer stop()
		if err := errors.Join(hub.Flush(t.Context()), c.Send(subject, reply, nil)); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-said:
			return err
		case <-time.After(time.Minute):
			t.Fatal("nothing was asked")
			return nil
		}
	}
	hears := func(subject string, times int) {
		for range times {
			if _, err := n1.nc.Subscribe(subject, func(*nats.Msg) {}); err != nil {
				t.Fatal(err)
			}
		}
		if err := n1.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reply := "_INBOX.node-n1.x"
	hears(reply, 1)
	if err := answer(n1, Hello("n1"), reply); err != nil {
		t.Errorf("who hears it once: %v", err)
	}
	hears("_INBOX.node-n1.>", mostEars)
	if err := answer(n1, Hello("n1"), reply); !errors.Is(err, errEars) {
		t.Errorf("an answer: %v", err)
	}
	hears(Ask("n1"), perKey+1)
	if err := hub.Carry(Onward{Subject: Ask("n1"), Node: "n1"}, nil); !errors.Is(err, errEars) {
		t.Errorf("a question: %v", err)
	}
	if err := hub.Carry(Onward{Subject: Ask("n2"), Node: "n2"}, nil); err != nil {
		t.Errorf("another's question: %v", err)
	}
	if err := hub.Send(Answer(".lake", "ear", "x"), "", nil); err != nil {
		t.Errorf("rows of the lake: %v", err)
	}
	for range mostEars + 1 {
		defer env.Must[func()](t)(asks.Hear(Answers("ear", "x"), func(Msg) {}))()
	}
	if err := asks.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := hub.Send(Answer(".lake", "ear", "x"), "", nil); !errors.Is(err, errEars) {
		t.Errorf("rows of the lake, many times over: %v", err)
	}
}

// TestCopiesOfFrames: of a node that hears many times over what is kept, nothing is.
func TestCopiesOfFrames(t *testing.T) {
	hub, n1, n2 := shipping(t)
	for range perKey + 1 {
		if _, err := n1.nc.Subscribe(keptPrefix+"n1", func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(n1.Flush(t.Context()), n1.nc.PublishMsg(frameMsg(ship("n1"), "a", nil)),
		n1.Flush(t.Context()), n2.Ship(t.Context(), []byte("honest"))); err != nil {
		t.Fatal(err)
	}
	if w, err := hub.Waiting(t.Context()); err != nil || w.Frames != 1 {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestNodeHearsLittle: a node that hears more than any node does is put out for a while.
func TestNodeHearsLittle(t *testing.T) {
	h := open(t, nil)
	n1 := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	n2 := env.Must[*Conn](t)(h.node(t, "n2", "n2", nil))
	for range nodeSubs + 1 {
		if _, err := n2.nc.Subscribe(Ask(""), func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	_ = n2.Flush(t.Context())
	until(t, "it goes on", func() bool { return h.Refused()[whyHears] > 0 })
	if _, err := h.node(t, "n2", "n2", nil); !errors.Is(err, ErrRefused) {
		t.Errorf("it comes in again: %v", err)
	}
	if err := n1.Flush(t.Context()); err != nil || !n1.Up() {
		t.Errorf("the other node: %v", err)
	}
}

// TestAnswersOfOthers: who asks hears what is answered to it, and nobody else's answers; of a place those who came last
// are connected.
func TestAnswersOfOthers(t *testing.T) {
	h := open(t, nil)
	ask := DialOptions{URL: h.o.Addr, Token: h.o.Ask}
	a, b := env.Must[*Conn](t)(h.dialed(t, ask)), env.Must[*Conn](t)(h.dialed(t, ask))
	wrong := make(chan error, 8)
	b.nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { wrong <- err })
	for _, subject := range []string{Answers("*", "*"), Answers(a.Ear(), "*"), Answers(a.Ear(), "x"), "mg.answer.>"} {
		if _, err := b.nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-wrong; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	first := h.comes(t, "one")
	for range mostEars {
		h.comes(t, "one")
	}
	if line, err := first.in.ReadString('\n'); err == nil {
		t.Errorf("it goes on: %q", line)
	}
}

// comes is another connection from a place.
func (h *house) comes(t *testing.T, place string) *raw {
	t.Helper()
	r := h.raw(t)
	_, err := fmt.Fprintf(r, "CONNECT {\"user\":%q,\"pass\":%q,\"verbose\":false}\r\nPING\r\n", askUser+place,
		h.o.Ask.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := r.in.ReadString('\n'); err != nil || line != "PONG\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return r
}

// TestPeopleSayLittle: a place that says more than there is to say is ended; of many that say too much together, those
// that said most, until it fits; what was said long ago counts no more.
func TestPeopleSayLittle(t *testing.T) {
	s, now := &Server{askers: map[uint64]*asker{}, places: map[string]*place{}}, time.Now()
	var conns []*server.ConnInfo
	for id := range uint64(8) {
		at := fmt.Sprint(id)
		s.askers[id], s.places[at] = &asker{place: at}, &place{conns: 1}
		conns = append(conns, &server.ConnInfo{Cid: id})
	}
	for _, c := range []struct {
		what string
		said []int64
		late time.Duration
		ends []uint64
	}{
		{"honest", []int64{placeBurst, 100, 1}, 0, nil},
		{"one that goes on", []int64{1, 1, 1}, 0, []uint64{0}},
		{"a while later", []int64{placeBurst, placeBurst}, 10 * time.Second, nil},
		{"all together", []int64{0, 0, 4000, 5000, 6000, 7000, 8000, 8001}, 0, []uint64{0, 1, 7}},
	} {
		now = now.Add(c.late)
		for i, n := range c.said {
			conns[i].InMsgs += n
		}
		ended := s.loud(conns, now)
		seen := map[uint64]bool{}
		for _, id := range ended {
			seen[id] = true
		}
		if len(seen) != len(c.ends) {
			t.Errorf("%s: %d are ended", c.what, ended)
		}
		for _, id := range c.ends {
			if !seen[id] {
				t.Errorf("%s: %d goes on", c.what, id)
			}
		}
	}
}
