package bus

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/test/env"
)

// house is a server with all it needs, which can be stopped and started again at the same port.
type house struct {
	*Server
	o   ServerOptions
	dir string

	mu   sync.Mutex
	keys map[string]string
}

func opened(t *testing.T, dir string) *rootdir.Dir {
	t.Helper()
	d, err := rootdir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func open(t *testing.T, change func(*ServerOptions)) *house {
	t.Helper()
	dir := t.TempDir()
	at := opened(t, dir)
	cert, pin, err := Identity(at, "", "")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{dir: dir, keys: map[string]string{}}
	h.o = ServerOptions{Dir: at, Addr: "127.0.0.1:0", Cert: cert, MaxDisk: 1 << 30, Join: NewToken(Join, pin),
		Ask: NewToken(Asks, pin), Log: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)), Known: h.known}
	if change != nil {
		change(&h.o)
	}
	h.start(t)
	t.Cleanup(func() { h.Close() })
	return h
}

func (h *house) start(t *testing.T) {
	t.Helper()
	s, err := StartServer(h.o)
	if err != nil {
		t.Fatal(err)
	}
	h.Server, h.o.Addr = s, s.Addr()
}

var errOther = errors.New("the name belongs to another node")

func (h *house) known(node, key string, from netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if have, ok := h.keys[node]; ok && have != key || !from.IsLoopback() {
		return errOther
	}
	h.keys[node] = key
	return nil
}

// node dials as a node; key names the file of its key.
func (h *house) node(t *testing.T, name, key string, change func(*DialOptions)) (*Conn, error) {
	t.Helper()
	o := DialOptions{URL: h.o.Addr, Token: h.o.Join, Node: name, Key: filepath.Join(h.dir, "keys", key)}
	if change != nil {
		change(&o)
	}
	return h.dialed(t, o)
}

func (h *house) dialed(t *testing.T, o DialOptions) (*Conn, error) {
	t.Helper()
	c, err := Dial(o)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// TestWhoComesIn: only those with the token, over TLS, to the hub that the token names, under a name of their own.
func TestWhoComesIn(t *testing.T) {
	h := open(t, nil)
	env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	env.Must[*Conn](t)(h.node(t, "n1", "n1", nil)) // its second process
	for name, c := range map[string]struct {
		node, key string
		change    func(*DialOptions)
	}{
		"another token":          {"n2", "n2", func(o *DialOptions) { o.Token = NewToken(Join, o.Token.Pin) }},
		"the token for asking":   {"n2", "n2", func(o *DialOptions) { o.Token.Secret = h.o.Ask.Secret }},
		"another's name":         {"n1", "n2", nil},
		"everybody's name":       {"all", "n2", nil},
		"no name":                {"a b", "n2", nil},
		"no TLS":                 {"n2", "n2", func(o *DialOptions) { o.Plain = true }},
		"another hub's pin":      {"n2", "n2", func(o *DialOptions) { o.Token.Pin = "AAAA" }},
		"no pin, no authorities": {"n2", "n2", func(o *DialOptions) { o.Token.Pin = "" }},
	} {
		if _, err := h.node(t, c.node, c.key, c.change); err == nil {
			t.Errorf("%s: let in", name)
		}
	}
	counted := h.Refused()
	if counted[whyToken] != 2 || counted[errOther.Error()] != 1 || counted[whyName] != 2 {
		t.Errorf("counted %v", counted)
	}
	_, err := h.node(t, "n1", "n2", nil)
	if !errors.Is(err, ErrRefused) || remedy.Of(err) == "" {
		t.Errorf("another's name: %v", err)
	}
	if old := tlsTo(h.o.Addr, tls.VersionTLS12); old == nil {
		t.Error("TLS 1.2 is taken")
	}
	if err := tlsTo(h.o.Addr, tls.VersionTLS13); err != nil {
		t.Errorf("TLS 1.3: %v", err)
	}
}

func tlsTo(addr string, version uint16) error {
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
	if err != nil {
		return err
	}
	return c.Close()
}

// TestNobodyListensToTheWorldOpenly: without credentials only the loopback is served.
func TestNobodyListensToTheWorldOpenly(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:4222"} {
		s, err := StartServer(ServerOptions{Dir: opened(t, t.TempDir()), Addr: addr, Insecure: true,
			Log: slog.Default()})
		if err == nil {
			s.Close()
			t.Errorf("%s: it listens", addr)
		} else if remedy.Of(err) == "" {
			t.Errorf("%s: %v: no remedy", addr, err)
		}
	}
}

// TestOwnNameOnly: a node can neither ship nor answer nor say hello for another, nor hear what others are told.
func TestOwnNameOnly(t *testing.T) {
	h := open(t, nil)
	hub := env.Must[*Conn](t)(h.Connect())
	defer hub.Close()
	var heard sync.Map
	stop := env.Must[func()](t)(hub.Hear("mg.>", func(m Msg) { heard.Store(m.Subject, true) }))
	defer stop()
	c := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	wrong := make(chan error, 16)
	c.nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { wrong <- err })
	forbidden := []string{Hello("n2"), ship("n2"), Answer("n2", "e", "x"), Ask("n2"), Hub("x", "nodes"),
		Flow("n2", "x")}
	for _, subject := range forbidden {
		if err := c.Send(subject, "", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{Hello("n1"), Answer("n1", "e", "x")} {
		if err := c.Send(subject, "", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for range forbidden {
		if err := <-wrong; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	}
	if err := errors.Join(c.Flush(t.Context()), hub.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, subject := range forbidden {
		if _, came := heard.Load(subject); came {
			t.Errorf("%s went through", subject)
		}
	}
	for _, subject := range []string{"mg.>", Answers("e", "x"), Flows("n2"), Ask("n2"), ">"} {
		if _, err := c.nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		_ = c.Flush(t.Context())
		if err := <-wrong; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("hear %s: %v", subject, err)
		}
	}
}

// TestShipped: what was acknowledged survives the server, however often it is sent.
func TestShipped(t *testing.T) {
	h := open(t, nil)
	hub := env.Must[*Conn](t)(h.Connect())
	if err := hub.OpenStream(t.Context(), 64<<20, 1); err != nil {
		t.Fatal(err)
	}
	c := env.Must[*Conn](t)(h.node(t, "n.1", "n1", func(o *DialOptions) { o.Patient = true }))
	const frames = 50
	for i := range frames {
		for range 2 { // as after an acknowledgement that was lost
			if err := c.Ship(t.Context(), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		if i == frames/2 {
			hub.Close()
			h.Close()
			h.start(t)
			hub = env.Must[*Conn](t)(h.Connect())
			if err := hub.OpenStream(t.Context(), 64<<20, 1); err != nil {
				t.Fatal(err)
			}
			shipAgain(t, c)
		}
	}
	defer hub.Close()
	ctx, cancel := context.WithCancel(t.Context())
	seen, failed := map[string]int{}, false
	done := make(chan error)
	go func() {
		keep := func(_ context.Context, list []Msg) error {
			if !failed {
				failed = true
				return errFull
			}
			for _, m := range list {
				if seen[string(m.Data)]++; NodeOf(m.Subject) != "n.1" {
					t.Errorf("from %q", NodeOf(m.Subject))
				}
			}
			if len(seen) == frames+1 {
				cancel()
			}
			return nil
		}
		g := Gather{Every: 10 * time.Millisecond, Bytes: 1 << 20}
		if err := hub.Consume(ctx, g, keep); !errors.Is(err, errFull) {
			t.Errorf("a keeper that fails: %v", err)
		}
		done <- hub.Consume(ctx, g, keep)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for text, n := range seen {
		if n < 2 && text != "back" || n > 2 {
			t.Errorf("%s came %d times", text, n)
		}
	}
}

var errFull = errors.New("the disk is full")

// shipAgain waits for the connection to come back.
func shipAgain(t *testing.T, c *Conn) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		if err := c.Ship(t.Context(), []byte("back")); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestTokens: what is no token is told, and one that others can read is refused.
func TestTokens(t *testing.T) {
	want := NewToken(Join, "pin")
	if got, err := ParseToken(want.String() + "\n"); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "x", "memgauge1.join.1.p", strings.Replace(want.String(), "join", "root", 1)} {
		if _, err := ParseToken(text); err == nil {
			t.Errorf("%q is a token", text)
		}
	}
	path := filepath.Join(t.TempDir(), "t")
	if err := os.WriteFile(path, []byte(want.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(path, false); err == nil || !strings.Contains(remedy.Of(err), "chmod") {
		t.Errorf("a token that all can read: %v", err)
	}
	link := path + "-link" // a cluster's secrets are links
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o644, 0o660, 0o440} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadToken(link, true); err != nil || got != want {
			t.Errorf("a shared token of mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(path, true); err == nil {
		t.Error("a token that everybody can write was taken")
	}
	if one, other := NewToken(Join, ""), NewToken(Join, ""); one == other {
		t.Error("two tokens are the same")
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(NewToken(Asks, "x").String())
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParseToken(text); err == nil && got.String() != strings.TrimSpace(text) {
			t.Errorf("%q: %q", text, got)
		}
	})
}
