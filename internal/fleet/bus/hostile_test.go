package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memgauge/memgauge/test/env"
)

// shipping is a server with a stream, and two nodes.
func shipping(t *testing.T) (hub, n1, n2 *Conn) {
	t.Helper()
	h := open(t, nil)
	hub = env.Must[*Conn](t)(h.Connect())
	t.Cleanup(hub.Close)
	if err := hub.OpenStream(t.Context(), 64<<20, 1); err != nil {
		t.Fatal(err)
	}
	patient := func(o *DialOptions) { o.Patient = true }
	n1 = env.Must[*Conn](t)(h.node(t, "n1", "n1", patient))
	n2 = env.Must[*Conn](t)(h.node(t, "n2", "n2", patient))
	return hub, n1, n2
}

// TestIDsOfOthers: a node that sends messages under the ids that another's frames had, or will have, drops none of
// them.
func TestIDsOfOthers(t *testing.T) {
	hub, n1, n2 := shipping(t)
	m := frameMsg(ship("n2"), "a", []byte("hostile"))
	m.Header.Set(nats.MsgIdHdr, "n1/s/memgauge.events/1")
	if err := errors.Join(n2.nc.PublishMsg(m), n2.Ship(t.Context(), []byte("hostile"))); err != nil {
		t.Fatal(err)
	}
	old := frameMsg(ship("n1"), "a", []byte("of before"))
	old.Header.Set(nats.MsgIdHdr, "n1/s/memgauge.events/1")
	if err := errors.Join(n1.nc.PublishMsg(old), n1.Ship(t.Context(), []byte("honest"))); err != nil {
		t.Fatal(err)
	}
	came := take(t, hub, 4)
	if !strings.Contains(came, "honest") || !strings.Contains(came, "of before") {
		t.Errorf("only %s came", came)
	}
}

// TestRepliesOfFrames: the subject that a node names for the answer to a frame hears nothing, in the server's own right
// or the hub's: no other node's frames, no question, no order to the stream. So it is where the stream itself hears
// nodes, as in a NATS of the user's.
func TestRepliesOfFrames(t *testing.T) {
	for _, inside := range []bool{true, false} {
		h := open(t, nil)
		hub := env.Must[*Conn](t)(h.Connect())
		defer hub.Close()
		if !inside {
			hub.inside = nil
		}
		if err := hub.OpenStream(t.Context(), 64<<20, 1); err != nil {
			t.Fatal(err)
		}
		n := env.Must[*Conn](t)(h.node(t, "n2", "n2", nil))
		heard := make(chan string, 1000)
		targets := []string{"mg.ship.n1", "mg.frame.n1", "mg.ask.all", "mg.hello.n1", "_INBOX.node-n1.x", "mg.kept.n1",
			"$JS.API.STREAM.PURGE." + streamName, "_INBOX.hub.x"}
		for _, to := range targets {
			if _, err := hub.nc.Subscribe(to, func(m *nats.Msg) { heard <- m.Subject }); err != nil {
				t.Fatal(err)
			}
		}
		if err := hub.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, to := range targets {
			for _, id := range []string{"a", "no id"} {
				m := frameMsg(ship("n2"), id, []byte("x"))
				m.Reply = to
				if err := n.nc.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(n.Ship(t.Context(), []byte("last")), hub.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		if len(heard) > 0 {
			t.Errorf("inside %t: %s heard an answer", inside, <-heard)
		}
		if w, err := hub.Waiting(t.Context()); err != nil || w.Frames == 0 {
			t.Errorf("inside %t: %+v frames are left, %v", inside, w, err)
		}
	}
}

// TestFlood: who sends more than any node has is put out, and not let in again for a while; others are not.
func TestFlood(t *testing.T) {
	h := open(t, nil)
	n1 := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	n2 := env.Must[*Conn](t)(h.node(t, "n2", "n2", nil))
	now := time.Now()
	r := rates{at: now}
	h.stopFloods(&r, now)
	for range 2 * maxRate {
		_ = n2.nc.Publish(Hello("n2"), nil) // until it is put out
	}
	_ = n2.Flush(t.Context())
	h.stopFloods(&r, now.Add(time.Second))
	if h.Refused()[whyFlood] == 0 {
		t.Error("it is not counted")
	}
	if _, err := h.node(t, "n2", "n2", nil); !errors.Is(err, ErrRefused) {
		t.Errorf("it comes in again: %v", err)
	}
	if err := n1.Flush(t.Context()); err != nil || !n1.Up() {
		t.Errorf("the other node: %v", err)
	}
	if h.flooded(h.keys["n2"], now.Add(2*floodFor)) {
		t.Error("it is never let in again")
	}
}

// take gives so many frames' texts.
func take(t *testing.T, hub *Conn, n int) string {
	t.Helper()
	var out []string
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	g := Gather{Every: 10 * time.Millisecond, Bytes: 1 << 20}
	err := hub.Consume(ctx, g, func(_ context.Context, l []Msg) error {
		for _, m := range l {
			if out = append(out, string(m.Data)); m.Time.IsZero() {
				t.Error("a frame of no time")
			}
		}
		if len(out) >= n {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return strings.Join(out, ", ")
}

// TestOneNodeFillsNoStream: a node whose frames nobody takes is refused beyond its share, and others are not.
func TestOneNodeFillsNoStream(t *testing.T) {
	hub, n1, n2 := shipping(t)
	for range perNode + 10 {
		if err := n2.nc.PublishMsg(frameMsg(ship("n2"), "a", []byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := n2.Ship(t.Context(), []byte("x")); !errors.Is(err, errNotKept) {
		t.Errorf("beyond its share: %v", err)
	}
	if w, err := hub.Waiting(t.Context()); err != nil || w.Frames != perNode {
		t.Errorf("%+v wait, %v", w, err)
	}
	if err := n1.Ship(t.Context(), []byte("y")); err != nil {
		t.Errorf("another node's frame: %v", err)
	}
}

// TestFormerFrames: what a node of an older memgauge ships is in no stream; the node is told why, as a stream tells
// that it could not store something. What an older hub has acknowledged stays until that hub is there again.
func TestFormerFrames(t *testing.T) {
	hub, n1, _ := shipping(t)
	older := jetstream.StreamConfig{Name: streamName, Subjects: []string{formerPrefix + "*"},
		Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		MaxBytes: 64 << 20, MaxMsgsPerSubject: perNode, DiscardNewPerSubject: true, MaxMsgSize: MaxMessage}
	upgraded := func(yes bool) {
		t.Helper()
		err := hub.OpenStream(t.Context(), 64<<20, 1)
		if !yes {
			_, err = hub.js.UpdateStream(t.Context(), older)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ship := func(text string) error {
		_, err := n1.js.Publish(t.Context(), formerPrefix+"n1", []byte(text), jetstream.WithRetryAttempts(0))
		return err
	}
	upgraded(false)
	if err := ship("acknowledged"); err != nil {
		t.Fatal(err)
	}
	upgraded(true)
	stop, err := hub.Hear(Former, func(m Msg) {
		if err := hub.Decline(m, "upgrade me"); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		err = hub.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := ship("declined"); err == nil || !strings.Contains(err.Error(), "upgrade me") {
		t.Errorf("the node was told %v", err)
	}
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var came []string
	err = hub.Consume(ctx, Gather{Every: time.Millisecond, Bytes: 1}, func(_ context.Context, list []Msg) error {
		for i, m := range list {
			came = append(came, string(m.Data))
			if !IsFormer(m.Subject) || NodeOf(m.Subject) != "n1" {
				t.Errorf("it came on %s", m.Subject)
			}
			list[i].Later = time.Hour
		}
		cancel()
		return nil
	})
	if w, e := hub.Waiting(t.Context()); err != nil || e != nil || w.Frames != 1 {
		t.Errorf("%d frames wait, %v, %v", w.Frames, err, e)
	}
	upgraded(false)
	if left := take(t, hub, 1); left != "acknowledged" || len(came) != 1 {
		t.Errorf("%q came, and to the older hub %q", came, left)
	}
}

// TestLater: a frame that is to come later comes again, and others meanwhile.
func TestLater(t *testing.T) {
	hub, n1, _ := shipping(t)
	for _, text := range []string{"a", "b"} {
		if err := n1.Ship(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var came []string
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := hub.Consume(ctx, Gather{Every: time.Millisecond, Bytes: 1}, func(_ context.Context, list []Msg) error {
		for i := range list {
			if came = append(came, string(list[i].Data)); len(came) == 1 {
				list[i].Later = time.Millisecond
			}
		}
		if len(came) == 3 {
			cancel()
		}
		return nil
	})
	if err != nil || len(came) != 3 || came[0] != "a" {
		t.Errorf("%v, %v", came, err)
	}
}

// TestNoTokenInLogs: neither a right nor a wrong token, nor a signature, is in what the server says or on its disk but
// in the tokens' own files; connections of every bad kind are made.
func TestNoTokenInLogs(t *testing.T) {
	var said bytes.Buffer
	h := open(t, func(o *ServerOptions) {
		o.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	wrong := NewToken(Join, h.o.Join.Pin)
	c := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	var signed string // by a key, as the library sends it
	sign := nats.Nkey("UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4", func([]byte) ([]byte, error) {
		signed = "c2lnbmF0dXJlLXRoYXQtaXMtbm9uZQ"
		return []byte("signature-that-is-none"), nil
	})
	for i, change := range []func(*DialOptions){
		func(o *DialOptions) { o.Token.Secret = wrong.Secret },
		func(o *DialOptions) { o.Node = "no name!" },
		func(o *DialOptions) { o.Key = filepath.Join(t.TempDir(), "other.key") },
	} {
		if x, err := h.node(t, "n1", "n1", change); !errors.Is(err, ErrRefused) {
			t.Errorf("%d: %v", i, err)
			if err == nil {
				x.Close()
			}
		} else if strings.Contains(err.Error(), h.o.Join.Secret) || strings.Contains(err.Error(), wrong.Secret) {
			t.Errorf("%d: the error tells a token: %v", i, err)
		}
	}
	conf, err := pinned(h.o.Join.Pin, "")
	if err != nil {
		t.Fatal(err)
	}
	if nc, err := nats.Connect(h.Addr(), nats.Secure(conf), nats.TLSHandshakeFirst(), sign,
		nats.UserInfo(nodeUser+"n2", h.o.Join.Secret)); err == nil {
		nc.Close()
		t.Error("a signature that is none")
	}
	_ = c.nc.Publish(Hello("n2"), []byte("x")) // of another
	_ = c.Flush(t.Context())
	h.Close()
	all := map[string]string{"the log": said.String()}
	err = filepath.WalkDir(h.o.Dir.Path(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, ".key") {
			text, err := os.ReadFile(path)
			all[path] = string(text)
			return err
		}
		return err
	})
	if err != nil || said.Len() == 0 || signed == "" {
		t.Errorf("%d bytes were logged, signed %q: %v", said.Len(), signed, err)
	}
	for where, text := range all {
		for _, secret := range []string{h.o.Join.Secret, h.o.Ask.Secret, wrong.Secret, h.internal, signed} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has a token or a signature:\n%.2000s", where, text)
			}
		}
	}
}
