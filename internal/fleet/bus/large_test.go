package bus

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// raw is a connection on which anything can be said.
type raw struct {
	net.Conn
	in   *bufio.Reader
	info struct {
		Nonce string `json:"nonce"`
	}
}

func (h *house) raw(t *testing.T) *raw {
	t.Helper()
	c, err := tls.Dial("tcp", h.o.Addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	r := &raw{Conn: c, in: bufio.NewReader(c)}
	line, err := r.in.ReadString('\n')
	if err != nil || json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &r.info) != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return r
}

// joins is what lets node n1 in.
func (h *house) joins(t *testing.T, r *raw) string {
	t.Helper()
	key, err := nodeKey(filepath.Join(h.dir, "keys", "n1"))
	if err != nil {
		t.Fatal(err)
	}
	public := env.Must[string](t)(key.PublicKey())
	sig := env.Must[[]byte](t)(key.Sign([]byte(r.info.Nonce)))
	text := env.Must[[]byte](t)(json.Marshal(map[string]any{"user": nodeUser + "n1", "pass": h.o.Join.Secret,
		"nkey": public, "sig": base64.RawURLEncoding.EncodeToString(sig), "verbose": false, "headers": true,
		"protocol": 1}))
	return fmt.Sprintf("CONNECT %s\r\n", text)
}

const huge = 2 << 30 // bytes of a frame that nobody may send

// TestHugeFrames: a frame of 2 GiB, a header that claims more, and a stream without an end, before a token was said or
// after: the connection is closed, no memory is taken for it, and it is counted; others go on.
func TestHugeFrames(t *testing.T) {
	h := open(t, nil)
	good := env.Must[*Conn](t)(h.node(t, "n2", "n2", nil))
	junk := bytes.Repeat([]byte("x"), 1<<20)
	for name, c := range map[string]struct {
		text   string
		joined bool
	}{
		"a frame of 2 GiB":               {fmt.Sprintf("PUB mg.rows.n1 %d\r\n", huge), true},
		"a frame of 100 MB":              {"PUB mg.rows.n1 100000000\r\n", true},
		"with headers":                   {fmt.Sprintf("HPUB mg.rows.n1 %d %d\r\n", huge-1, huge), true},
		"more than 64 bits":              {"PUB mg.rows.n1 99999999999999999999\r\n", true},
		"below nothing":                  {"PUB mg.rows.n1 -5\r\n", true},
		"a line without an end":          {"PUB mg.rows.n1", true},
		"before a token was said":        {fmt.Sprintf("PUB mg.rows.n1 %d\r\n", huge), false},
		"a token without an end":         {"CONNECT {\"pass\":\"", false},
		"no line of the protocol at all": {"\x00\x01MGF", false},
	} {
		r := h.raw(t)
		if c.joined {
			c.text = h.joins(t, r) + c.text
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		sent := 0
		_, err := io.WriteString(r, c.text)
		for err == nil && sent < huge {
			_, err = r.Write(junk)
			sent += len(junk)
		}
		if runtime.ReadMemStats(&after); err == nil || sent > 64<<20 || after.TotalAlloc-before.TotalAlloc > 32<<20 {
			t.Errorf("%s: %d MiB were taken, %v; it took %d MiB of memory", name, sent>>20, err,
				(after.TotalAlloc-before.TotalAlloc)>>20)
		}
		r.Close()
	}
	if counted := h.Refused(); counted[whyLarge] != 7 || counted[whySilent] != 2 {
		t.Errorf("counted %v", counted)
	}
	if err := good.Flush(t.Context()); err != nil {
		t.Errorf("another node: %v", err)
	}
}

// TestCountsWhatItRefuses: no TLS, and words of or for others.
func TestCountsWhatItRefuses(t *testing.T) {
	h := open(t, nil)
	c, err := net.Dial("tcp", h.o.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "CONNECT {}\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if b, _ := io.ReadAll(c); bytes.Contains(b, []byte("INFO")) {
		t.Errorf("it speaks without TLS: %q", b)
	}
	n := env.Must[*Conn](t)(h.node(t, "n1", "n1", nil))
	_ = n.Send(Hello("n2"), "", []byte("x"))
	stop := env.Must[func()](t)(n.Hear(Answers("e", "x"), func(Msg) {}))
	defer stop()
	if err := n.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the server counts in its own time
		counted := h.Refused()
		if counted[whyTLS] == 1 && counted[whySubject] == 2 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("counted %v", counted)
		}
	}
}
