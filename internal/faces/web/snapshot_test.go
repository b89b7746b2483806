package web_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"

	"github.com/memgauge/memgauge/internal/faces/web"
)

// shown starts a server with a snapshot that was recorded, and waits until it is read.
func shown(t *testing.T) (string, *http.Client) {
	t.Helper()
	origin, client := serveWith(t, web.Options{Sessions: session(),
		Snapshots: []string{filepath.Join(env.Checkout(), "testdata", "snapshots", "mosaic.pickle")}})
	enter(t, client, origin)
	read(t, client, origin, "1")
	return origin, client
}

// read waits until a snapshot is read.
func read(t *testing.T, client *http.Client, origin, key string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		_, text, _ := call{path: "/api/f/" + key}.do(t, client, origin)
		if strings.Contains(text, `"state":"ready"`) {
			return
		}
	}
	t.Fatal("the snapshot is not read")
}

// A tile has as many columns and boxes as it says, and is bounded whatever is asked for; what can't be one is refused.
func TestTiles(t *testing.T) {
	origin, client := shown(t)
	get := func(q string) (int, string) {
		code, text, _ := call{path: "/api/f/1/" + q}.do(t, client, origin)
		return code, text
	}
	for _, q := range []string{"level=0&index=0&least=0", "level=4&index=0&least=1", "level=0&index=0&least=-9",
		"level=0&index=0&least=9223372036854775807", "level=0&index=0&least=x", "level=20&index=0&least=512"} {
		code, text := get("tile?device=0&" + q)
		if code != http.StatusOK || len(text) < 24 {
			t.Errorf("%s: %d, %d bytes", q, code, len(text))
			continue
		}
		columns, boxes := binary.LittleEndian.Uint32([]byte(text[12:])), binary.LittleEndian.Uint32([]byte(text[16:]))
		if columns > 512 || boxes > 8192 || len(text) != int(24+20*columns+20*boxes) {
			t.Errorf("%s: %d columns and %d boxes in %d bytes", q, columns, boxes, len(text))
		}
	}
	const huge = "9223372036854775807"
	for _, q := range []string{"tile?device=0&level=-1&index=0", "tile?device=0&level=63&index=0",
		"tile?device=0&level=0&index=-1", "tile?device=0&level=0&index=" + huge,
		"tile?device=0&level=" + huge + "&index=1",
		"tile?device=0&level=30&index=99999999", "tile?level=0&index=0", "tile?device=9&level=0&index=0",
		"tile?device=%00&level=0&index=0", "block?device=0&id=-1", "block?device=0&id=4294967295",
		"block?device=0&id=" + huge,
		"moment?device=0&event=-2", "moment?device=0&event=" + huge, "flame?device=0&event=" + huge,
		"flame?device=0&event=0&against=77", "flame?device=0&event=0&against=../../etc/passwd", "segments?device=",
		"source?frame=-1", "source?frame=" + huge, "diff?against=", "diff?against=u1"} {
		if code, text := get(q); code != http.StatusUnprocessableEntity || len(text) > 1000 {
			t.Errorf("%s: %d, %d bytes: %.200s", q, code, len(text), text)
		}
	}
	for _, key := range []string{"2", "u1", "s-", "s-2", "%2e%2e", "1%00", strings.Repeat("9", 5000)} {
		if code, text, _ := (call{path: "/api/f/" + key + "/tile?device=0"}).do(t, client, origin); code < 400 {
			t.Errorf("key %.20s: %d %.200s", key, code, text)
		}
	}
}

// What is dropped onto the page may be anything: it is read or refused with a reason, and its name is text without a
// path.
func TestUploads(t *testing.T) {
	origin, client := shown(t)
	whole, err := os.ReadFile(filepath.Join(env.Checkout(), "testdata", "snapshots", "mosaic.pickle"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, body string) (int, string) {
		code, text, _ := call{method: "POST", path: "/api/f?name=" + name, body: body,
			header: map[string]string{"Origin": origin}}.do(t, client, origin)
		return code, text
	}
	for what, body := range map[string]string{"nothing": "", "text": strings.Repeat("no snapshot\n", 10000),
		"a pickle that runs code": "cos\nsystem\n(S'exit 1'\ntR.", "zeros": strings.Repeat("\x00", 1<<20),
		"gzip of nothing": "\x1f\x8b\x08\x00"} {
		if code, text := put("x", body); code != http.StatusUnprocessableEntity || !strings.Contains(text, "message") {
			t.Errorf("%s: %d %.200s", what, code, text)
		}
	}
	code, text := put("..%2F..%2Fetc%2F%3Cb%3E%FF"+strings.Repeat("n", 1000), string(whole))
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	read(t, client, origin, made.Key)
	_, text, _ = call{path: "/api/f/" + made.Key}.do(t, client, origin)
	var told struct{ Name, Origin string }
	if err := json.Unmarshal([]byte(text), &told); err != nil || !strings.HasPrefix(told.Name, "<b>\ufffdnnn") ||
		len([]rune(told.Name)) != 200 || told.Origin != "upload" {
		t.Errorf("%q: %v", told.Name, err)
	}
	for i := range 40 { // the list of those that were dropped is bounded
		put(fmt.Sprint("n", i), "none")
	}
	_, text, _ = call{path: "/api/f"}.do(t, client, origin)
	var list []struct{ Key string }
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) > 33 || list[0].Key != "1" {
		t.Errorf("%d snapshots are listed: %v", len(list), err)
	}
}

// A file that is larger than allowed is refused before it is sent.
func TestTooLargeAnUpload(t *testing.T) {
	origin, client := shown(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, origin+"/api/f?name=large",
		strings.NewReader("it has only begun"))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 17 << 30
	req.Header.Set("Origin", origin)
	req.Header.Set("Expect", "100-continue")
	client.Transport.(*keyed).RoundTripper.(*http.Transport).ExpectContinueTimeout = time.Minute
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// TestSourceOfSnapshots: a snapshot names files by their paths, and from elsewhere it may name any of this machine's.
// Lines are shown only where the user says that it was recorded here, and never of what was dropped onto the page.
func TestSourceOfSnapshots(t *testing.T) {
	for _, here := range []bool{false, true} {
		path := filepath.Join(env.Checkout(), "testdata", "snapshots", "mosaic.pickle")
		origin, client := serveWith(t, web.Options{Sessions: session(), Snapshots: []string{path}, Source: here})
		enter(t, client, origin)
		read(t, client, origin, "1")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code, text, _ := call{method: "POST", path: "/api/f?name=x", body: string(whole),
			header: map[string]string{"Origin": origin}}.do(t, client, origin)
		if code != http.StatusOK {
			t.Fatalf("%d %.200s", code, text)
		}
		for key, want := range map[string]bool{"1": here, "u1": false} {
			read(t, client, origin, key)
			_, text, _ := call{path: "/api/f/" + key + "/source?frame=0"}.do(t, client, origin)
			if refused := strings.Contains(text, "recorded here"); refused == want {
				t.Errorf("recorded here %t, %s: %s", here, key, text)
			}
		}
	}
}
