package bus

import (
	"errors"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// TestLateWord: the word of a frame that comes after its time counts when the frame is about to be sent again, so a hub
// that is slow does not get everything twice; and a node waits longer for such a hub.
func TestLateWord(t *testing.T) {
	h := open(t, nil)
	hub := env.Must[*Conn](t)(h.Connect()) // without a stream: it takes no frame
	defer hub.Close()
	n := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	data := []byte("frame")
	if err := n.Ship(t.Context(), data); !errors.Is(err, errNotKept) {
		t.Fatal(err)
	}
	if err := errors.Join(hub.nc.PublishMsg(frameMsg(keptPrefix+"n1", idOf(data), nil)), hub.Flush(t.Context()),
		n.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := n.Ship(t.Context(), data); err != nil {
		t.Error(err)
	}
	if len(n.kept.waiting) > 0 || n.kept.slow != 0 {
		t.Errorf("%d frames are waited for, slow %d", len(n.kept.waiting), n.kept.slow)
	}
}

// TestPatience: a large frame has more time than a small one, each time-out doubles it within a bound, and what nobody
// sends again is forgotten.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		size, slow int
		want       time.Duration
	}{{0, 0, shipTime}, {4 << 20, 0, shipTime + 4*time.Second}, {0, 2, 4 * shipTime}, {8 << 20, 5, shipLongest},
		{0, 1 << 30, shipLongest}} {
		if got := patience(c.size, c.slow); got != c.want {
			t.Errorf("%d bytes, %d time-outs: %s, want %s", c.size, c.slow, got, c.want)
		}
	}
	k, now := kept{waiting: map[string]*sent{}}, time.Now()
	old, _ := k.begin("a", 1, now)
	if again, _ := k.begin("a", 1, now.Add(time.Second)); again != old {
		t.Error("the word of the frame before is not heard")
	}
	if again, _ := k.begin("a", 1, now.Add(time.Hour)); again == old {
		t.Error("the word of another hub is heard")
	}
	for i := range 2 * maxLate {
		k.begin(idOf([]byte{byte(i)}), 1, now)
	}
	if k.begin("b", 1, now.Add(2*time.Hour)); len(k.waiting) != 1 {
		t.Errorf("%d are remembered", len(k.waiting))
	}
}
