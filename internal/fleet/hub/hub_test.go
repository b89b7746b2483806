package hub

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/test/frames"
)

// kept is a sink that remembers numbers of rows.
type kept struct{ came chan frame.Header }

func (k kept) AppendAll(_ context.Context, list []frame.Batch) error {
	for _, b := range list {
		k.came <- b.Header
	}
	return nil
}

func (k kept) ID() string                    { return "kept" }
func (k kept) Counts() (stored, again int64) { return 0, 0 }
func (k kept) Parts(frame.Batch) []string    { return []string{"one"} }
func (k kept) Refused() map[string]int64     { return nil }
func (k kept) Aside() ([]string, int)        { return nil, 0 }

// patience is how long a test waits for what happens at once on an idle machine.
const patience = 2 * time.Minute

// running opens and runs a hub, and gives the way to end it.
func running(t *testing.T, o Options) (h *Hub, stop func()) {
	t.Helper()
	o.Gather = bus.Gather{Every: 10 * time.Millisecond, Bytes: 1 << 20}
	o.Log, o.MaxDisk = slog.New(slog.NewTextHandler(t.Output(), nil)), 64<<20
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	h, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- h.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		h.Close()
	}
	return h, stop
}

func dial(t *testing.T, h *Hub, name string) *bus.Conn {
	t.Helper()
	o := bus.DialOptions{URL: h.Identity.Addr, Token: h.Identity.Ask}
	if name != "" {
		o.Token, o.Node, o.Key = h.Identity.Join, name, filepath.Join(h.o.Dir, "test-"+name+".key")
	}
	c, err := bus.Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func hello(t *testing.T, c *bus.Conn, name, instance string, bye bool) {
	t.Helper()
	text, err := json.Marshal(node.Hello{Instance: instance, Jobs: []string{"llama"}, Sessions: 1, Bye: bye})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := c.Request(ctx, bus.Hello(name), text)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestNodesAreRemembered: a node that is gone is named, also by the next hub, which knows its key.
func TestNodesAreRemembered(t *testing.T) {
	dir := t.TempDir()
	h, stop := running(t, Options{Dir: dir})
	n1, n2 := dial(t, h, "n1"), dial(t, h, "n2")
	hello(t, n1, "n1", "a", false)
	hello(t, n1, "n1", "b", false)
	hello(t, n2, "n2", "c", false)
	asker := fanout.NewAsker(dial(t, h, ""), patience)
	list, err := asker.Nodes(t.Context())
	if err != nil || len(list) != 2 || len(list[0].Instances) != 2 || list[0].Sessions != 2 || !list[1].Up {
		t.Errorf("%+v, %v", list, err)
	}
	hello(t, n2, "n2", "c", true)
	hasty := fanout.NewAsker(dial(t, h, ""), 200*time.Millisecond)
	sessions, missing, err := hasty.Sessions(t.Context(), fanout.Select{})
	if err != nil || len(sessions) != 0 || len(missing) != 2 {
		t.Fatalf("%v, %+v, %v", sessions, missing, err)
	}
	if missing[0].Why != "no answer in time" || missing[1].Why != "it is not connected" {
		t.Errorf("%+v", missing)
	}
	join, addr := h.Identity.Join, h.Identity.Addr
	when := time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	h.roster.kept("n1", 3, when)
	stop()

	h, stop = running(t, Options{Dir: dir, Listen: addr})
	defer stop()
	if h.Identity.Join != join {
		t.Error("the next hub has another token: nodes would have to join anew")
	}
	thief := bus.DialOptions{URL: h.Identity.Addr, Token: join, Node: "n2", Key: filepath.Join(dir, "thief.key")}
	if c, err := bus.Dial(thief); !errors.Is(err, bus.ErrRefused) {
		if err == nil {
			c.Close()
		}
		t.Errorf("a node that claims another's name: %v", err)
	}
	if s := h.Status(t.Context()); len(s.Nodes) != 2 || s.Nodes[0].Kept != 3 || !s.Nodes[0].KeptAt.Equal(when) ||
		s.Refused["the name belongs to another node"] == 0 {
		t.Errorf("%+v", s)
	}
}

// TestTwoHubs: a directory has one hub.
func TestTwoHubs(t *testing.T) {
	dir := t.TempDir()
	_, stop := running(t, Options{Dir: dir})
	defer stop()
	if _, err := Open(Options{Dir: dir, Listen: "127.0.0.1:0", Log: slog.Default()}); err == nil ||
		!strings.Contains(err.Error(), "another one has") {
		t.Errorf("a second hub: %v", err)
	}
}

// batch is a frame of one row of memgauge.events that a node sends in its own name, with rows of the owner's.
func batch(t *testing.T, from, owner string, first uint64) []byte {
	t.Helper()
	return encoded(t, frames.Fields("memgauge.events"), from, owner, first)
}

func encoded(t *testing.T, fields []frame.Field, from, owner string, first uint64) []byte {
	t.Helper()
	rows := frames.Rows(fields, 1, func(f frame.Field, _ int) any {
		return map[string]any{"job": "j", "node": owner}[f.Name]
	})
	text, err := frame.Encode(frame.Batch{Header: frame.Header{Job: "j", Node: from, Rank: -1, Session: "s",
		Table: "memgauge.events", First: first, Count: 1}, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFrames: frames reach the keeper; what is none, or speaks for another node, is counted and reaches nobody.
func TestFrames(t *testing.T) {
	k := kept{make(chan frame.Header, 16)}
	h, stop := running(t, Options{Dir: t.TempDir(), Keep: k})
	defer stop()
	c := dial(t, h, "n1")
	hello(t, c, "n1", "a", false)
	for _, text := range [][]byte{batch(t, "n1", "n1", 1), batch(t, "n2", "n2", 1), []byte("MGF\x01 no frame"),
		make([]byte, 8<<20), batch(t, "n1", "n2", 1), batch(t, "n1", "n1", 2)} {
		if err := ship(t, c, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Ship(t.Context(), make([]byte, 9<<20)); err == nil {
		t.Error("a frame of 9 MiB was taken")
	}
	for want := uint64(1); want <= 2; want++ {
		if got := <-k.came; got.First != want || got.Node != "n1" {
			t.Errorf("%+v, want row %d", got, want)
		}
	}
	s := h.Status(t.Context()) // the last row is counted once the keeper has returned
	if s.Rows < 1 || s.Rows > 2 || s.Refused[whyForged] != 2 || s.Refused[whyCorrupt] != 2 {
		t.Errorf("%+v", s)
	}
	if len(k.came) > 0 {
		t.Error("more frames came")
	}
}

// ship waits for the hub to open its stream.
func ship(t *testing.T, c *bus.Conn, text []byte) error {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		err := c.Ship(t.Context(), text)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// TestFiles: nobody else reads what a hub keeps.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	_, stop := running(t, Options{Dir: dir})
	defer stop()
	for _, name := range []string{joinFile, askFile, "key.pem", "cert.pem", "nodes.json", addrFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil && name != "nodes.json" {
			t.Error(err)
		} else if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}
