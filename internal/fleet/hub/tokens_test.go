package hub

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/test/env"
)

// TestTokensRotate: a new token lets nodes in beside the one before, until it is rotated once more; a node that reads
// its file again goes on with what is in it.
func TestTokensRotate(t *testing.T) {
	h, stop := running(t, Options{Dir: t.TempDir()})
	defer stop()
	token := func() bus.Token { return env.Must[bus.Token](t)(bus.ReadToken(JoinToken(h.o.Dir), false)) }
	comes := func(name string, with bus.Token) error {
		c, err := bus.Dial(bus.DialOptions{URL: h.Identity.Addr, Token: with, Node: name,
			Key: filepath.Join(h.o.Dir, "test-"+name+".key")})
		if err == nil {
			c.Close()
		}
		return err
	}
	rotate := func(now bool) {
		t.Helper()
		if err := h.o.Rotate(bus.Join, now); err != nil {
			t.Fatal(err)
		}
		h.reread()
	}
	first := token()
	rotate(false)
	second := token()
	if err := errors.Join(comes("n1", first), comes("n2", second)); err != nil || first.Secret == second.Secret {
		t.Error("two tokens: ", err)
	}
	rotate(false)
	if err := comes("n1", first); !errors.Is(err, bus.ErrRefused) {
		t.Error("the first, after two rotations: ", err)
	}
	rotate(true)
	if err := errors.Join(comes("n2", token())); err != nil || !errors.Is(comes("n2", second), bus.ErrRefused) {
		t.Error("rotated at once: ", err)
	}
	again, err := bus.Dial(bus.DialOptions{URL: h.Identity.Addr, Token: first, Node: "n3",
		Again: func() (bus.Token, error) { return token(), nil }, Key: filepath.Join(h.o.Dir, "test-n3.key")})
	if err != nil {
		t.Fatal("who reads it again: ", err)
	}
	again.Close()
	if err := (Options{Dir: t.TempDir()}).Rotate(bus.Join, false); err == nil {
		t.Error("a hub that is none")
	}
}

// TestForgotten: a node that is gone is forgotten when that is asked, and one that is connected is not. One that was
// there for a run which is over is not missed, and the oldest of those makes room for another name of its key.
func TestForgotten(t *testing.T) {
	h, stop := running(t, Options{Dir: t.TempDir()})
	defer stop()
	names := func() (list []string) {
		for _, n := range h.roster.list(time.Now()) {
			list = append(list, n.Name)
		}
		return list
	}
	hello(t, dial(t, h, "gone"), "gone", "a", true)
	hello(t, dial(t, h, "here"), "here", "b", false)
	for _, name := range []string{"gone", "here", "nobody"} {
		if err := h.o.Forget(name); err != nil {
			t.Fatal(err)
		}
	}
	h.reread()
	if got := names(); !slices.Equal(got, []string{"here"}) {
		t.Errorf("%v are left", got)
	}
	if left, err := filepath.Glob(filepath.Join(h.o.Dir, forgetFile+"*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := h.o.Forget("../x"); err == nil || exists(filepath.Join(h.o.Dir, "..", "x")) {
		t.Error("a name that is none")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestEndedNodes: a node that was there for one run is not missed when that is over, and of a key's names the oldest of
// those is forgotten where there are too many.
func TestEndedNodes(t *testing.T) {
	r := newRoster(nil)
	now := time.Now()
	for i := range namesPerKey + 3 {
		name := "run-" + string(rune('a'+i))
		if _, err := r.claim(name, "key", netip.Addr{}, now); err != nil {
			t.Fatal(name, err)
		}
		word := node.Hello{Instance: name, Once: true}
		err := r.hello(name, word, now)
		word.Bye = true
		if err := errors.Join(err, r.hello(name, word, now.Add(time.Duration(i)*time.Second))); err != nil {
			t.Fatal(err)
		}
	}
	list := r.list(now)
	if len(list) != namesPerKey || list[0].Name != "run-d" || !list[0].Ended || list[0].Up {
		t.Errorf("%+v", list)
	}
}
