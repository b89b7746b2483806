package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/memgauge/memgauge/test/env"
)

// TestFloodOfAnAsker: whoever asks the hub more than it can answer fills a line of its own, and others are answered.
func TestFloodOfAnAsker(t *testing.T) {
	h := open(t, nil)
	hub := env.Must[*Conn](t)(h.Connect())
	defer hub.Close()
	ask := DialOptions{URL: h.o.Addr, Token: h.o.Ask}
	early := env.Must[*Conn](t)(h.dialed(t, ask)) // before the hub hears anybody
	flood := env.Must[*Conn](t)(h.dialed(t, ask))
	free := make(chan struct{})
	stop := env.Must[func()](t)(hub.HearAskers(func(m Msg) {
		if place, _ := HubOf(m.Subject); place == flood.Place() {
			<-free
		}
		_ = hub.Reply(m, []byte("yes"))
	}))
	for range min(flowsWait, placeBurst) { // who says more at once is ended
		if err := flood.Send(Hub(flood.Place(), "nodes"), flood.Inbox(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := flood.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := env.Must[*Conn](t)(h.dialed(t, ask))
	for _, c := range []*Conn{early, late} {
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if b, err := c.Request(ctx, Hub(c.Place(), "nodes"), nil); err != nil || string(b) != "yes" {
				t.Errorf("%q, %v", b, err)
			}
			cancel()
		}
	}
	close(free)
	stop()
	if err := hub.Flush(t.Context()); err != nil { // the server knows it, too
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := late.Request(ctx, Hub(late.Place(), "nodes"), nil); !errors.Is(err, ErrNobody) {
		t.Errorf("a hub that hears nobody: %v", err)
	}
	for _, c := range []*Conn{early, flood, late} {
		c.Close()
	}
	until(t, "their places are remembered", func() bool {
		h.Server.mu.Lock()
		defer h.Server.mu.Unlock()
		return len(h.places) == 0 && len(h.askers) == 0
	})
}

// TestPlaceOfAnother: nobody speaks from the place of another who asks, nor hears what the hub answers there; and there
// is no place that is none.
func TestPlaceOfAnother(t *testing.T) {
	h := open(t, nil)
	ask := DialOptions{URL: h.o.Addr, Token: h.o.Ask}
	a, b := env.Must[*Conn](t)(h.dialed(t, ask)), env.Must[*Conn](t)(h.dialed(t, ask))
	wrong := make(chan error, 8)
	b.nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { wrong <- err })
	if err := b.Send(Hub(a.Place(), "nodes"), b.Inbox(), nil); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{askInbox(a.Place()) + ".>", "_INBOX.ask.>", Hub(b.Place(), ">")} {
		if _, err := b.nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
	}
	_ = b.Flush(t.Context())
	for range 4 {
		if err := <-wrong; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	}
	for _, place := range []string{"", "a.b", "*", ">", rand.Text() + ".x"} {
		conf, err := pinned(h.o.Ask.Pin, "")
		if err != nil {
			t.Fatal(err)
		}
		nc, err := nats.Connect(h.Addr(), nats.Secure(conf), nats.TLSHandshakeFirst(),
			nats.UserInfo(askUser+place, h.o.Ask.Secret))
		if err == nil {
			nc.Close()
			t.Errorf("%q is a place", place)
		}
	}
	if n := h.Refused()[whyPlace]; n != 5 {
		t.Errorf("%d were counted", n)
	}
}

// TestIdleMakesRoom: connections that say nothing keep nobody out.
func TestIdleMakesRoom(t *testing.T) {
	fewPlaces(t)
	askerIdle = 0
	h := open(t, nil)
	for range 3 * forAskers {
		if _, err := h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}); err != nil {
			t.Fatal(err)
		}
		h.Server.mu.Lock()
		if n := len(h.askers); n > forAskers {
			t.Errorf("%d places are taken of %d", n, forAskers)
		}
		h.Server.mu.Unlock()
	}
	if n := h.Refused()[whyIdle]; n < int64(2*forAskers) {
		t.Errorf("%d were ended", n)
	}
}

func TestIdlest(t *testing.T) {
	now := time.Now()
	conn := func(id uint64, ip string, silent time.Duration, pending int) *server.ConnInfo {
		return &server.ConnInfo{Cid: id, IP: ip, LastActivity: now.Add(-silent), Pending: pending}
	}
	all := []*server.ConnInfo{
		conn(1, "10.0.0.1", time.Hour, 0), // a page that was left open
		conn(2, "10.0.0.2", askerIdle-1, 0), conn(3, "10.0.0.2", time.Minute, 1),
		conn(4, "10.0.0.2", time.Minute, 0), conn(5, "10.0.0.2", 2*time.Minute, 0),
	}
	for _, want := range []uint64{5, 4} { // of 4 and 3 that address has most
		i := slices.IndexFunc(all, func(c *server.ConnInfo) bool { return c.Cid == want })
		if got := idlest(all, now); got == nil || got.Cid != want {
			t.Errorf("%+v, want %d", got, want)
		}
		all = slices.Delete(all, i, i+1)
	}
	if got := idlest(all[1:], now); got != nil {
		t.Errorf("%+v asks, or is being answered", got)
	}
}

// TestOnlyTheHubReachesNodes: who asks says nothing to a node but through the hub.
func TestOnlyTheHubReachesNodes(t *testing.T) {
	h := open(t, nil)
	c := env.Must[*Conn](t)(h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}))
	wrong := make(chan error, 8)
	c.nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { wrong <- err })
	for _, subject := range []string{Ask(""), Ask("n1"), Grant(""), Grant("n1"), Flow("n1", "x")} {
		if err := errors.Join(c.Send(subject, "", nil), c.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := <-wrong; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// TestOnward: what goes by way of the hub goes on to where nodes hear it, and nothing else goes on.
func TestOnward(t *testing.T) {
	for subject, want := range map[string]Onward{Ask(""): {}, Ask("n.1"): {Node: "n.1"}, Grant(""): {Changes: true},
		Grant("n1"): {Node: "n1", Changes: true}, Flow("n.1", "x"): {Node: "n.1", Word: true},
		Ask(".lake"): {Node: ".lake"}} {
		want.Subject = subject
		if _, what := HubOf(Via("place", subject)); what == "" {
			t.Errorf("%s has no way", subject)
		} else if got, ok := OnwardOf(what); !ok || got != want {
			t.Errorf("%s: %+v, %t", what, got, ok)
		}
	}
	for _, what := range []string{"", "nodes", "status", "ask", "ask.", "ask.a.b", "ask.*", "ask.>", "ask.a b",
		"flow.x", "flow.all.x", "flow.n1.", "flow.n1.>", "flow.n1.a.b", "flow..x", "hello.n1", "rows.n1",
		"frame.n1", "kept.n1",
		"answer.n1.x", "hub.x.nodes", "grant.>", "ask.~a~.b"} {
		if to, ok := OnwardOf(what); ok {
			t.Errorf("%q goes on to %+v", what, to)
		}
	}
}
