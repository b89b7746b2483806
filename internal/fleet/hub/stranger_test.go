package hub

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/test/frames"
)

// TestHubSpeaksForNobody: what a stranger names as the place of an answer gets none of the hub's words: neither frames
// in another's name, nor orders to the stream.
func TestHubSpeaksForNobody(t *testing.T) {
	k := kept{make(chan frame.Header, 16)}
	h, stop := running(t, Options{Dir: t.TempDir(), Keep: k})
	defer stop()
	c, asks := dial(t, h, "n1"), dial(t, h, "")
	hello(t, c, "n1", "a", false)
	for from, subject := range map[*bus.Conn]string{c: bus.Hello("n1"), asks: bus.Hub(asks.Place(), "nodes")} {
		for _, to := range []string{"mg.rows.n2", "$JS.API.STREAM.PURGE.MEMGAUGE", "mg.ask.all", "_INBOX.hub.x"} {
			if err := from.Send(subject, to, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "all to be refused", func() bool { return h.Status(t.Context()).Refused[whyReply] == 8 })
	if err := ship(t, c, batch(t, "n1", "n1", 1)); err != nil {
		t.Fatal(err)
	}
	<-k.came // what was in the stream before it has come
	if s := h.Status(t.Context()); s.Refused[whyCorrupt] > 0 || s.Refused[whyForged] > 0 {
		t.Errorf("junk came in another's name: %v", s.Refused)
	}
}

// TestClaimedSize: a frame that is none costs its node what it is long, and not what it says that it holds.
func TestClaimedSize(t *testing.T) {
	h := &Hub{o: Options{Log: quiet(), Keep: kept{}}, shares: newShares(0, everyone)}
	corrupt := make([]byte, 16)
	copy(corrupt, "MGF\x01")
	binary.LittleEndian.PutUint32(corrupt[12:], 64<<20)
	forged := batch(t, "n2", "n2", 1)
	binary.LittleEndian.PutUint32(forged[12:], 64<<20)
	flushed := map[string]map[string]bool{}
	for _, text := range [][]byte{corrupt, forged} {
		for range 20 {
			m := bus.Msg{Subject: "mg.rows.n1", Data: text}
			if _, ok := h.admit(&m, flushed); ok || m.Later > 0 {
				t.Fatalf("%t, later %s", ok, m.Later)
			}
		}
	}
	m := bus.Msg{Subject: "mg.rows.n1", Data: batch(t, "n1", "n1", 1)}
	_, ok := h.admit(&m, flushed)
	if !ok {
		t.Fatalf("the node's own frame is to come in %s", m.Later)
	}
}

// TestUnpackedIsPaid: a frame that is none, which only unpacking it shows, costs its node what was unpacked. Else a few
// kilobytes would take the hub's time from all others.
func TestUnpackedIsPaid(t *testing.T) {
	const rows, share = 1000, 4
	text := strings.Repeat("x", 1<<10)
	b := frame.Batch{Header: frame.Header{Job: text[:1], Node: text[:1], Rank: -1, Session: "s",
		Table: "memgauge.events", First: 1, Count: rows}}
	b.Rows = frames.Rows(frames.Fields(b.Table), rows, func(f frame.Field, _ int) any {
		switch {
		case f.Name == "job" || f.Name == "node":
			return text[:1]
		case f.Type == frame.Text:
			return text
		}
		return nil
	})
	good, err := frame.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(good, []byte(`"count":1000`), []byte(`"count":1001`), 1)
	before := byteShare
	defer func() { byteShare = before }()
	byteShare = rate{burst: float64(share * frame.Unpacked(bad)), each: 1}
	h := &Hub{o: Options{Log: quiet(), Keep: kept{}}, shares: newShares(0, everyone)}
	for range share + 1 {
		m := bus.Msg{Subject: "mg.rows.x", Data: bad}
		if _, ok := h.admit(&m, map[string]map[string]bool{}); ok {
			t.Fatal("it was taken for a frame")
		}
		if m.Later > 0 {
			return
		}
	}
	t.Errorf("after %d times %d bytes it need not wait", share+1, frame.Unpacked(bad))
}

// TestFormerNode: a node of an older memgauge is told to upgrade, counted, and keeps its rows; what an older hub has
// left in the stream is kept there.
func TestFormerNode(t *testing.T) {
	k := kept{make(chan frame.Header, 16)}
	h, stop := running(t, Options{Dir: t.TempDir(), Keep: k})
	defer stop()
	c := dial(t, h, "n1")
	hello(t, c, "n1", "a", false)
	older := batch(t, "n1", "n1", 1)
	older[3] = 1 // its version
	until(t, "an answer", func() bool {
		answer, err := c.Request(t.Context(), "mg.ship.n1", older)
		return err == nil && strings.Contains(string(answer), `"description":"`+errFormer.Error())
	})
	if err := ship(t, c, batch(t, "n1", "n1", 1)); err != nil { // it was upgraded
		t.Fatal(err)
	}
	<-k.came
	if s := h.Status(t.Context()); s.Refused[whyFormer] == 0 || s.Frames > 1 || s.Refused[whyCorrupt] > 0 {
		t.Errorf("%+v", s)
	}
	m := bus.Msg{Subject: "mg.ship.n1", Data: older}
	other := &Hub{o: Options{Log: quiet(), Keep: kept{}}, shares: newShares(0, everyone)}
	if _, ok := other.admit(&m, nil); ok || m.Later == 0 || other.counts.bad[whyFormer] != 1 {
		t.Errorf("one in the stream: later %s, %v", m.Later, other.counts.bad)
	}
}

// TestNamesShareASave: while the file is written nothing waits for it but new names, and one more is for all of them.
func TestNamesShareASave(t *testing.T) {
	r := emptyRoster(t, t.TempDir())
	r.write.Lock() // by who writes the file now
	var names sync.WaitGroup
	for i := range 50 {
		names.Go(func() {
			if err := r.known(fmt.Sprint("n", i), fmt.Sprint("key", i), local); err != nil {
				t.Errorf("a name was refused: %v", err)
			}
		})
	}
	until(t, "all to have claimed their names", func() bool { return len(r.list(time.Now())) == 50 })
	if err := r.hello("n1", node.Hello{Instance: "a"}, time.Now()); err != nil {
		t.Error(err)
	}
	r.write.Unlock()
	names.Wait()
	if r.saves != 1 {
		t.Errorf("%d files were written", r.saves)
	}
	again, err := openRoster(r.dir, quiet())
	if err != nil || len(again.nodes) != 50 {
		t.Errorf("%d names are on the disk, %v", len(again.nodes), err)
	}
}

// TestStatusIsToldAgain: however often the hub is asked how it is, it looks once a second.
func TestStatusIsToldAgain(t *testing.T) {
	h := &Hub{o: Options{Log: quiet()}, roster: emptyRoster(t, t.TempDir())}
	now := time.Now()
	totals := []int{h.lately(t.Context(), now).Total}
	if err := h.roster.hello("n1", node.Hello{Instance: "a"}, now); err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{statusFor, statusFor + 1} {
		totals = append(totals, h.lately(t.Context(), now.Add(later)).Total)
	}
	if fmt.Sprint(totals) != "[0 0 1]" {
		t.Errorf("%v nodes", totals)
	}
	if err := h.roster.hello("n1", node.Hello{Instance: "a", Bye: true}, now); err != nil {
		t.Fatal(err)
	}
	if s := h.lately(t.Context(), now.Add(statusFor+1)); s.Nodes[0].Up {
		t.Error("a node that has said goodbye is up")
	}
}

// TestHubEndsWithItsConnection: a hub that nobody hears any more ends with an error, so that it is started again.
func TestHubEndsWithItsConnection(t *testing.T) {
	h, err := Open(Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxDisk: 64 << 20, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	c := dial(t, h, "n1")
	hello(t, c, "n1", "a", false) // it runs
	h.conn.Close()
	if err := <-done; !errors.Is(err, bus.ErrLost) {
		t.Error(err)
	}
}
