package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

// carried asks the hub to carry something to a node, and gives what it says.
func carried(t *testing.T, c *bus.Conn, subject string, text []byte) (said fanout.Carried) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := c.Request(ctx, bus.Via(c.Place(), subject), text)
	if err == nil {
		err = json.Unmarshal(b, &said)
	}
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// TestCarried: the hub carries to nodes what is for them, keeps back what changes trainings unless it was told
// otherwise, and says what it does not carry.
func TestCarried(t *testing.T) {
	for _, grant := range []bool{false, true} {
		h, stop := running(t, Options{Dir: t.TempDir(), Grant: grant})
		n, asks := dial(t, h, "n1"), dial(t, h, "")
		came := make(chan string, 16)
		for _, subject := range []string{bus.Ask(""), bus.Ask("n1"), bus.Grant("n1"), bus.Flows("n1")} {
			if _, err := n.Hear(subject, func(m bus.Msg) { came <- m.Subject + string(m.Data) }); err != nil {
				t.Fatal(err)
			}
		}
		hello(t, n, "n1", "a", false) // it hears now
		if said := carried(t, asks, bus.Grant("n1"), []byte("1")); (said.Error == nil) != grant ||
			!grant && !errors.Is(said.Error, api.ErrForbidden) {
			t.Errorf("allowed %t: %+v", grant, said)
		}
		if err := asks.Send(bus.Via(asks.Place(), bus.Flow("n1", "x")), "", []byte("2")); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{"mg.flow.n1.x2": true, "mg.ask.n13": true, "mg.ask.all4": true}
		if grant {
			want["mg.grant.n11"] = true
		}
		if a, b := carried(t, asks, bus.Ask("n1"), []byte("3")), carried(t, asks, bus.Ask(""), []byte("4")); a.Error !=
			nil || b.Error != nil {
			t.Errorf("%+v, %+v", a, b)
		}
		for range len(want) {
			if one := <-came; !want[one] {
				t.Errorf("allowed %t: %s", grant, one)
			}
		}
		large := make([]byte, maxToAll+1)
		for what, text := range map[string][]byte{bus.Ask(""): large, bus.Ask(fanout.LakeNode): []byte("1")} {
			if said := carried(t, asks, what, text); said.Error == nil || said.Later > 0 {
				t.Errorf("%s: %+v", what, said)
			}
		}
		if len(came) > 0 {
			t.Errorf("%s came", <-came)
		}
		stop()
	}
}

// TestFloodOfQuestions: however much people ask all nodes, a node that answers each question is taken for no flood, and
// others ask it.
func TestFloodOfQuestions(t *testing.T) {
	h, stop := running(t, Options{Dir: t.TempDir()})
	defer stop()
	n := dial(t, h, "n1")
	var heard atomic.Int64
	for _, subject := range []string{bus.Ask(""), bus.Ask("n1")} {
		if _, err := n.Hear(subject, func(bus.Msg) {
			heard.Add(1)
			_ = n.Send(bus.Answer("n1", "e", "x"), "", nil)
		}); err != nil {
			t.Fatal(err)
		}
	}
	hello(t, n, "n1", "a", false)
	late := dial(t, h, "")
	for range 4 {
		asks := dial(t, h, "")
		for range 6000 {
			if err := asks.Send(bus.Via(asks.Place(), bus.Ask("")), "", []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		if err := asks.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the flood to be over", func() bool {
		refused := h.Status(t.Context()).Refused[whyAsksOften]
		return refused > 0 && carried(t, late, bus.Ask("n1"), []byte("{}")).Error == nil
	})
	for why, count := range h.server.Refused() {
		t.Errorf("%d: %s", count, why)
	}
	if !n.Up() || heard.Load() > 6000 {
		t.Errorf("%d questions came, connected %t", heard.Load(), n.Up())
	}
}

// TestShareOfWhatIsCarried: one who asks, one node and all of them have each their share; words are cheaper than
// questions; and what is full is forgotten.
func TestShareOfWhatIsCarried(t *testing.T) {
	now := time.Now()
	fill := func(c carrier, place string, to bus.Onward, size int) (n int) {
		for c.take(place, to, size, now) == 0 {
			n++
		}
		return n
	}
	one, word, all := bus.Onward{Node: "n1"}, bus.Onward{Node: "n1", Word: true}, bus.Onward{}
	for what, c := range map[string]struct {
		to         bus.Onward
		size, want int
	}{"questions": {one, 100, 8192}, "large ones": {one, 8 << 20, 4}, "words": {word, 200, 65536},
		"to all": {all, 100, 1024}, "large ones to all": {all, maxToAll, 8}} {
		if n := fill(newCarrier(), "a", c.to, c.size); n != c.want {
			t.Errorf("%s: %d", what, n)
		}
	}
	c := newCarrier()
	fill(c, "a", one, 100)
	if c.take("b", one, 100, now) == 0 || c.take("b", bus.Onward{Node: "n2"}, 100, now) > 0 {
		t.Error("a node's share is not its own")
	}
	for i := 0; fill(c, fmt.Sprint(i), bus.Onward{Node: fmt.Sprint(i)}, 8<<20) > 0; i++ {
		if i > 100 {
			t.Fatal("all nodes together have no share")
		}
	}
	for i := range maxNodes {
		c.take(fmt.Sprint("later", i), bus.Onward{Node: fmt.Sprint("later", i)}, 1, now.Add(time.Hour))
	}
	c.take("one more", bus.Onward{Node: "one more"}, 1, now.Add(2*time.Hour))
	if len(c.places) > 2 || len(c.nodes) > 2 {
		t.Errorf("%d places and %d nodes are remembered", len(c.places), len(c.nodes))
	}
}

// TestPaceOfProcesses: the processes of one node share what its answers may have.
func TestPaceOfProcesses(t *testing.T) {
	h, stop := running(t, Options{Dir: t.TempDir()})
	defer stop()
	c := dial(t, h, "n1")
	for i, want := range []int{bus.Pace, bus.Pace / 2, bus.Pace / 3} {
		text, err := json.Marshal(node.Hello{Instance: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		b, err := c.Request(ctx, bus.Hello("n1"), text)
		cancel()
		var w node.Welcome
		if err == nil {
			err = json.Unmarshal(b, &w)
		}
		if err != nil || w.Pace != want {
			t.Errorf("process %d: %+v, %v", i, w, err)
		}
	}
}
