package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memgauge/memgauge/test/env"
)

// TestReplyTo: an answer goes to an inbox of who sent the message, whatever it names.
func TestReplyTo(t *testing.T) {
	for _, c := range []struct {
		subject, reply string
		ok             bool
	}{
		{Hub("x", "status"), "_INBOX.ask.x.1", true},
		{Hub("x", "status"), "_INBOX.ask.y.1", false},
		{"mg.hub..status", "_INBOX.ask..1", false},
		{Hello("a.b"), "_INBOX.node-a~b.x.1", true},
		{formerPrefix + "n1", "_INBOX.node-n1.x.1", true},
		{formerPrefix + "n1", "_INBOX.node-n2.x.1", false},
		{Hub("x", "nodes"), "mg.rows.victim", false},
		{Hub("x", "nodes"), "$JS.API.STREAM.DELETE.MEMGAUGE", false},
		{Hub("x", "nodes"), "_INBOX.hub.x", false},
		{Hub("x", "nodes"), "_INBOX.node-n1.x", false},
		{Hub("x", "nodes"), "_INBOX.ask.x.>", false},
		{Hub("x", "nodes"), "_INBOX.askew.x", false},
		{Hub("x", "nodes"), "_INBOX.ask.x." + strings.Repeat("x", maxSubject), false},
		{Hello("n1"), "mg.rows.n1", false},
		{Hello("n1"), "mg.hello.n2", false},
		{Hello("n1"), "_INBOX.node-n2.x", false},
		{Hello("n1"), "_INBOX.node-n11.x", false},
		{Hello("n1"), "_INBOX.ask.x", false},
		{Ask("n1"), "_INBOX.ask.x", false},
	} {
		if err := replyTo(Msg{Subject: c.subject, Reply: c.reply}); (err == nil) != c.ok {
			t.Errorf("%s to %.50s: %v", c.subject, c.reply, err)
		}
	}
}

// TestCheckID: what is a question's id, and so a part of subjects.
func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{"A": true, strings.Repeat("z", 64): true, "": false, "a.b": false, "*": false,
		"a b": false, "a\r\nPUB": false, strings.Repeat("y", 5000): false, strings.Repeat("z", 65): false} {
		if err := CheckID(id); (err == nil) != ok {
			t.Errorf("%.70q: %v", id, err)
		}
	}
}

// TestLongSubjects: a text that a stranger has chosen makes no line that ends the connection for good.
func TestLongSubjects(t *testing.T) {
	h := open(t, nil)
	n := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	long := strings.Repeat("y", 5000)
	if n.Send(Answer("n1", "e", long), "", nil) == nil || n.Send(Hello("n1"), long, nil) == nil ||
		n.Send(Answer("n1", "e", "x\r\nPUB mg.hello.n1"), "", nil) == nil {
		t.Error("it was sent")
	}
	if _, err := n.Hear(Ask(long), func(Msg) {}); err == nil {
		t.Error("it is heard")
	}
	if _, err := n.Request(t.Context(), Hub("x", long), nil); !errors.Is(err, errSubject) {
		t.Error(err)
	}
	if err := n.Flush(t.Context()); err != nil || !n.Up() {
		t.Errorf("up: %v, %v", n.Up(), err)
	}
}

// TestLost: who has a connection hears when it is over for good.
func TestLost(t *testing.T) {
	h := open(t, nil)
	n := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	_ = n.nc.Publish("mg.answer.n1."+strings.Repeat("y", 5000), nil)
	select {
	case <-n.Lost():
	case <-time.After(time.Minute):
		t.Error("nothing was said")
	}
}

// TestLongestNames: the bounds of lines let the longest names through.
func TestLongestNames(t *testing.T) {
	h := open(t, nil)
	hub := env.Must[*Conn](t)(h.Connect())
	defer hub.Close()
	if err := hub.OpenStream(t.Context(), 64<<20, 1); err != nil {
		t.Fatal(err)
	}
	defer env.Must[func()](t)(hub.Hear(Hello(""), func(m Msg) { _ = hub.Reply(m, []byte("welcome")) }))()
	name, id := strings.Repeat("n", 128), strings.Repeat("Z", 64)
	n := env.Must[*Conn](t)(h.node(t, name, "n", nil))
	if err := errors.Join(hub.Flush(t.Context()), n.Ship(t.Context(), []byte("frame"))); err != nil {
		t.Fatal(err)
	}
	if b, err := n.Request(t.Context(), Hello(name), []byte("hello")); err != nil || string(b) != "welcome" {
		t.Errorf("%q, %v", b, err)
	}
	a := env.Must[*Conn](t)(h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}))
	came := make(chan string, 2)
	defer env.Must[func()](t)(hub.HearAskers(func(m Msg) {
		_, what := HubOf(m.Subject)
		if to, ok := OnwardOf(what); ok {
			_ = hub.Send(to.Subject, "", m.Data)
		}
	}))()
	for c, subject := range map[*Conn]string{a: Answers(a.Ear(), id), n: Flows(name)} {
		defer env.Must[func()](t)(c.Hear(subject, func(m Msg) { came <- m.Subject }))()
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	word := Via(a.Place(), Flow(name, id))
	if err := errors.Join(n.Send(Answer(name, a.Ear(), id), "", nil), a.Send(word, "", nil)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-came:
		case <-time.After(time.Minute):
			t.Fatal("a message with the longest names did not come")
		}
	}
}

// TestConnectionsOfAKey: one node can't take all connections, and those that went count no more.
func TestConnectionsOfAKey(t *testing.T) {
	h := open(t, nil)
	var conns []*Conn
	for range perKey {
		conns = append(conns, env.Must[*Conn](t)(h.node(t, "n1", "n1", nil)))
	}
	if _, err := h.node(t, "n1", "n1", nil); err == nil {
		t.Error("one more came in")
	}
	if h.Refused()[whyMany] == 0 {
		t.Errorf("%v", h.Refused())
	}
	env.Must[*Conn](t)(h.node(t, "n2", "n2", nil))
	for _, c := range conns[:perKey/2] {
		c.Close()
	}
	for end := time.Now().Add(time.Minute); ; {
		if _, err := h.node(t, "n1", "n1", nil); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestPlacesOfAskers: nodes, or who has their token, can't take the places that are left to who asks.
func TestPlacesOfAskers(t *testing.T) {
	fewPlaces(t)
	h := open(t, nil)
	nodes := 0
	for ; nodes <= maxConnections; nodes++ {
		name := fmt.Sprint("n", nodes)
		if _, err := h.node(t, name, name, nil); err != nil {
			break
		}
	}
	if most := maxConnections - forAskers; nodes > most || nodes < most/2 || h.Refused()[whyMany] == 0 {
		t.Errorf("%d nodes came in, of %d; refused %v", nodes, most, h.Refused())
	}
	for i := range forAskers {
		for end := time.Now().Add(time.Minute); ; { // the node that was refused goes in its own time
			_, err := h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask})
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("asker %d: %v", i, err)
			}
		}
	}
}

// fewPlaces has the hubs of a test refuse early, and nobody who is idle makes room.
func fewPlaces(t *testing.T) {
	oldMost, oldAskers, oldIdle := maxConnections, forAskers, askerIdle
	maxConnections, forAskers, askerIdle = 24, 8, time.Hour
	t.Cleanup(func() { maxConnections, forAskers, askerIdle = oldMost, oldAskers, oldIdle }) // after the server's end
}

// TestAskersLeavePlaces: who asks can't take the places of nodes, and those that went count no more.
func TestAskersLeavePlaces(t *testing.T) {
	fewPlaces(t)
	h := open(t, nil)
	askers := 0
	var one *Conn
	for ; askers < maxConnections; askers++ {
		c, err := h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask})
		if err != nil {
			break
		}
		one = c
	}
	if askers != forAskers || h.Refused()[whyAskers] == 0 {
		t.Errorf("%d askers came in; refused %v", askers, h.Refused())
	}
	if _, err := h.node(t, "n1", "n1", nil); err != nil {
		t.Errorf("a node beside them: %v", err)
	}
	one.Close()
	for end := time.Now().Add(time.Minute); ; { // it goes in its own time
		if _, err := h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestFullIsSaid: a hub that takes no more connections is not taken for one without TLS.
func TestFullIsSaid(t *testing.T) {
	oldMost := maxConnections
	maxConnections = 2 // the hub's own is one
	t.Cleanup(func() { maxConnections = oldMost })
	h := open(t, nil)
	for range maxConnections {
		c, err := net.Dial("tcp", h.o.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for h.ns.NumClients() < maxConnections { // they come in their own time, and stay for five seconds
		runtime.Gosched()
	}
	if _, err := h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
}

// TestSubscriptions of one connection are bounded, in number and in words.
func TestSubscriptions(t *testing.T) {
	h := open(t, nil)
	a := env.Must[*Conn](t)(h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}))
	for i := range maxSubs + 20 {
		if _, err := a.nc.SubscribeSync(Answers(a.Ear(), fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(t.Context()); err != nil || !errors.Is(a.nc.LastError(), nats.ErrMaxSubscriptionsExceeded) {
		t.Errorf("%v, %v", err, a.nc.LastError())
	}
}

// TestWaitingMessages: messages without a byte that a reader does not take are dropped beyond a number.
func TestWaitingMessages(t *testing.T) {
	h := open(t, nil)
	n := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	a := env.Must[*Conn](t)(h.Connect())
	defer a.Close()
	free, came := make(chan struct{}), 0
	end := make(chan struct{})
	defer env.Must[func()](t)(n.Hear(Ask("n1"), func(m Msg) {
		<-free
		if came++; string(m.Data) == "end" {
			close(end)
		}
	}))()
	if err := n.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 * othersWait {
		if err := a.Send(Ask("n1"), "", nil); err != nil {
			t.Fatal(err)
		}
	}
	// behind the answer to a ping of its own a node has all that came before
	if err := errors.Join(a.Flush(t.Context()), n.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	close(free)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; { // the last may be dropped too, while others wait
		_ = a.Send(Ask("n1"), "", []byte("end"))
		select {
		case <-end:
			over = true
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it takes no more")
		}
	}
	if came > 2*othersWait {
		t.Errorf("%d waited", came)
	}
}

// TestFewLines: what a stranger does again and again is logged ever more seldom.
func TestFewLines(t *testing.T) {
	var said bytes.Buffer
	h := open(t, func(o *ServerOptions) { o.Log = slog.New(slog.NewTextHandler(&said, nil)) })
	wrong := NewToken(Join, h.o.Join.Pin)
	for range 20 {
		if _, err := h.node(t, "n1", "n1", func(o *DialOptions) { o.Token.Secret = wrong.Secret }); err == nil {
			t.Fatal("it came in")
		}
	}
	tells := &tells{log: h.o.Log, stuck: &h.stuck, refuse: h.refuse, said: map[string]int64{}}
	for i := range 1000 {
		tells.Errorf(fmt.Sprintf("127.0.0.1:%d - cid:%d - %s", i, i, "Client parser ERROR: %d"), i)
	}
	h.Close()
	if n := strings.Count(said.String(), "refused a connection"); n != 5 {
		t.Errorf("%d lines of 20 refusals", n)
	}
	if n := strings.Count(said.String(), "parser ERROR"); n != 10 {
		t.Errorf("%d lines of 1000 errors", n)
	}
	if n := h.Refused()[whyToken]; n != 20 {
		t.Errorf("%d were counted", n)
	}
}
