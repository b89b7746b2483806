package hub

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/test/env"
	"github.com/memgauge/memgauge/test/nats"
)

// may is what docs/fleet.md says that users may do.
var may = map[string]nats.User{"hub": {Publish: []string{">"}, Subscribe: []string{">"}},
	"n1": {Publish: []string{"mg.hello.n1", "mg.rows.n1", "mg.answer.n1.*.*"},
		Subscribe: []string{"mg.ask.all", "mg.ask.n1", "mg.flow.n1.*", "mg.kept.n1", "_INBOX.node-n1.>"}},
	"ask": {Publish: []string{"mg.hub.>"},
		Subscribe: []string{"mg.answer.*.*.*", "_INBOX.ask.>"}}}

func over(t *testing.T, o nats.Server, replicas int) Options {
	return Options{Dir: t.TempDir(), MaxDisk: 64 << 20, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		External: External{URLs: o.URL, Creds: o.Creds("hub"), CA: o.CA, Replicas: replicas}}
}

// TestExternalNATS: a hub over a NATS of the user's knows the nodes there and takes their frames. A second hub, one
// server that shall keep three copies, and one that takes no large messages are refused.
func TestExternalNATS(t *testing.T) {
	o := nats.Start(t, may, bus.MaxMessage)
	few := over(t, o, 3)
	few.Keep = kept{}
	h, err := Open(few)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(t.Context()); remedy.Of(err) == "" || !strings.Contains(remedy.Of(err), "--replicas 1") {
		t.Errorf("three copies on one server: %v", err)
	}
	h.Close()

	k := kept{make(chan frame.Header, 16)}
	one := over(t, o, 1)
	one.Keep = k
	h, stop := running(t, one)
	defer stop()
	dial := func(creds, node string) *bus.Conn {
		token, err := bus.ReadToken(o.Creds(creds), false)
		if err != nil || !token.Lets(bus.Join) {
			t.Fatal(token, err)
		}
		c, err := bus.Dial(bus.DialOptions{URL: o.URL, CA: o.CA, Token: token, Node: node})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	n1 := dial("n1", "n1")
	hello(t, n1, "n1", "a", false)
	for _, text := range [][]byte{batch(t, "n1", "n1", 1), batch(t, "n2", "n2", 1)} {
		if err := ship(t, n1, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := dial("n1", "n2").Ship(t.Context(), batch(t, "n2", "n2", 1)); err == nil {
		t.Error("a node shipped in another's name")
	}
	if got := <-k.came; got.Node != "n1" {
		t.Errorf("%+v came", got)
	}
	list, err := fanout.NewAsker(dial("ask", ""), 5*time.Second).Nodes(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "n1" || !list[0].Up {
		t.Errorf("%+v, %v", list, err)
	}
	if s := h.Status(t.Context()); s.Addr != o.URL || s.Room != one.MaxDisk {
		t.Errorf("%+v", s)
	}
	if f, err := Find(one.Dir); err != nil || f.Creds != one.External.Creds || f.Addr != o.URL {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Open(over(t, o, 1)); err == nil || !strings.Contains(err.Error(), "another hub has it") {
		t.Errorf("a second hub: %v", err)
	}
	small := nats.Start(t, may, 1<<20)
	if _, err := Open(over(t, small, 1)); !strings.Contains(remedy.Of(err), "max_payload") {
		t.Errorf("small messages: %v", err)
	}
	small.CA = ""
	if _, err := Open(over(t, small, 1)); err == nil {
		t.Error("a certificate that nobody vouches for")
	}
}

// TestExternalLosesAServer: of three servers that keep each frame, the one that leads is lost and comes back, again and
// again. Every frame that was acknowledged reaches the keeper, and one that was not is sent again.
func TestExternalLosesAServer(t *testing.T) {
	env.Long(t, "a cluster of three servers that are lost and come back")
	o := nats.StartCluster(t, may, bus.MaxMessage, 3)
	k := kept{make(chan frame.Header, 4096)}
	one := over(t, o.Server, 3)
	one.Keep = k
	_, stop := running(t, one)
	defer stop()
	token, err := bus.ReadToken(o.Creds("n1"), false)
	if err != nil {
		t.Fatal(err)
	}
	n1, err := bus.Dial(bus.DialOptions{URL: o.URL, CA: o.CA, Token: token, Node: "n1", Patient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer n1.Close()
	const frames = 90
	tries, lost := 0, -1
	for i := range uint64(frames) {
		switch i % 30 {
		case 10:
			if lost = o.StreamLeader("MEMGAUGE"); lost < 0 {
				t.Fatal("no server leads the stream")
			}
			o.Lose(lost)
		case 25:
			o.Start(t, lost)
		}
		text := batch(t, "n1", "n1", i+1)
		until(t, "a frame to be taken", func() bool {
			tries++
			return n1.Ship(t.Context(), text) == nil
		})
	}
	came := map[uint64]int{}
	until(t, "all frames at the keeper", func() bool {
		for {
			select {
			case h := <-k.came:
				came[h.First]++
				continue
			default:
			}
			return len(came) == frames
		}
	})
	// Ended while it catches up, a server leaves files open.
	until(t, "the server that came back to have all frames", func() bool { return o.Current("MEMGAUGE") })
	t.Logf("%d frames in %d attempts", frames, tries)
}

// TestExternalAddresses refuses what would tell secrets or reach nothing.
func TestExternalAddresses(t *testing.T) {
	for list, hint := range map[string]string{"host:4222": "such as", "nats://host": "such as",
		"nats://a:1,http://b:2": "such as", "nats://me:secret@a:4222": "--token-file"} {
		if err := bus.CheckURLs(list); !strings.Contains(remedy.Of(err), hint) {
			t.Errorf("%s: %v", list, err)
		}
	}
	if err := bus.CheckURLs("nats://a:4222,tls://b:4222"); err != nil {
		t.Error(err)
	}
}
