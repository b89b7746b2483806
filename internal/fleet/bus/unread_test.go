package bus

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// few has places for so many who ask, until the test and its server have ended.
func few(t *testing.T, askers int) {
	old, oldIdle := forAskers, askerIdle
	forAskers, askerIdle = askers, time.Hour
	t.Cleanup(func() { forAskers, askerIdle = old, oldIdle })
}

// deaf hears answers, and reads none of them; ear is where.
func (h *house) deaf(t *testing.T) (ear string) {
	t.Helper()
	r := h.raw(t)
	place := rand.Text()
	ear = Ear(place)
	_, err := fmt.Fprintf(r, "CONNECT {\"user\":%q,\"pass\":%q,\"verbose\":false,\"headers\":true,\"protocol\":1}\r\n"+
		"SUB %s 1\r\nPING\r\n", askUser+place, h.o.Ask.Secret, Answers(ear, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for line := ""; line != "PONG\r\n"; {
		if line, err = r.in.ReadString('\n'); err != nil || strings.HasPrefix(line, "-ERR") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	return ear
}

// until waits for what the server does in its own time.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestUnread: who asks and does not read is ended where too much waits for all together, and its place stays taken as
// long as its bytes may be there. Others go on.
func TestUnread(t *testing.T) {
	few(t, 3)
	old := maxWaiting
	maxWaiting = 32 << 20
	t.Cleanup(func() { maxWaiting = old })
	h := open(t, nil)
	n := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	good := env.Must[*Conn](t)(h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}))
	came := make(chan Msg, 100)
	defer env.Must[func()](t)(good.Hear(Answers(good.Ear(), "x"), func(m Msg) { came <- m }))()
	ears := []string{good.Ear(), h.deaf(t), h.deaf(t)}
	if err := good.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 8<<20) // for each of the two less than one connection may have, for both more than all may
	for range 5 {
		for _, ear := range ears {
			if err := n.Send(Answer("n1", ear, "x"), "", big); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := n.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "nobody was ended", func() bool { return h.Refused()[whyUnread] > 0 })
	for range 5 {
		select {
		case <-came:
		case <-time.After(time.Minute):
			t.Fatal("an answer did not come to who reads")
		}
	}
	if err := good.Flush(t.Context()); err != nil || !good.Up() {
		t.Errorf("who reads: %v", err)
	}
	if _, err := h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}); !errors.Is(err, ErrRefused) {
		t.Errorf("its place is free while its bytes are there: %v", err)
	}
	if h.Refused()[whyAskers] == 0 {
		t.Errorf("%v", h.Refused())
	}
	h.asking(time.Now()) // since when it is over
	h.asking(time.Now().Add(2 * writeTime))
	env.Must[*Conn](t)(h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}))
}

// TestPlacesOfPeople: there are as many connections of who asks as there are places, and those that went without
// leaving anything unread take none.
func TestPlacesOfPeople(t *testing.T) {
	few(t, 4)
	h := open(t, nil)
	ask := DialOptions{URL: h.o.Addr, Token: h.o.Ask}
	var conns []*Conn
	for range forAskers {
		conns = append(conns, env.Must[*Conn](t)(h.dialed(t, ask)))
	}
	if _, err := h.dialed(t, ask); !errors.Is(err, ErrRefused) || h.Refused()[whyAskers] != 1 {
		t.Errorf("one more: %v, %v", err, h.Refused())
	}
	env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	for _, c := range conns {
		c.Close()
	}
	until(t, "their places stay taken", func() bool {
		_, err := h.dialed(t, ask)
		return err == nil
	})
}
