package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/test/env"
)

const token = "sixteen-characters-and-more"

// scripted is a session that answers every statement with the same rows; a question that it has no answer for is a bug
// of the test.
type scripted struct {
	api.Session
	about api.About
	live  func() bool
	final func() bool // nil: as soon as it is over
	query func(q api.QueryRequest, w io.Writer) error
}

func (s *scripted) About(context.Context) (api.About, error) { return s.about, nil }
func (s *scripted) End(context.Context) (api.End, error) {
	live := s.live()
	return api.End{Live: live, Final: !live && (s.final == nil || s.final())}, nil
}
func (s *scripted) Close() error { return nil }
func (s *scripted) SourceFile(_ context.Context, name string) (string, error) {
	return filepath.Join(s.about.Cwd, name), nil
}
func (s *scripted) Query(_ context.Context, q api.QueryRequest, w io.Writer) error {
	return s.query(q, w)
}
func (s *scripted) Eval(_ context.Context, q api.EvalRequest, out api.EvalOutput) (api.EvalReply, error) {
	err := out.Print(0, false, []byte("ran "+q.Code))
	return api.EvalReply{Results: []api.EvalResult{{Outcome: api.Fine}}}, err
}

// List has the session alone.
func (s *scripted) List(context.Context) ([]api.Listed, []error, error) {
	return []api.Listed{{ID: "1", Name: "<b>", State: "running", Rows: -1}}, []error{errors.New("one is damaged")}, nil
}

func (s *scripted) Open(_ context.Context, id string) (api.Session, error) {
	if id != "1" {
		return nil, fmt.Errorf("there is no session %s", id)
	}
	return s, nil
}

// keyed is a client's way: it sends the key with each request, as the page does, once it has one.
type keyed struct {
	http.RoundTripper
	key string
}

func (k *keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.key != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Memgauge-Key", k.key)
	}
	return k.RoundTripper.RoundTrip(r)
}

// serve starts a server, and gives its origin with a client that has no key yet.
func serve(t *testing.T, s *scripted, allowEval bool) (string, *http.Client) {
	t.Helper()
	return serveWith(t, web.Options{Sessions: s, AllowEval: allowEval})
}

func serveWith(t *testing.T, o web.Options) (string, *http.Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Token, o.Listener = token, l
	srv, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String(), &http.Client{Transport: &keyed{RoundTripper: transport}}
}

func session() *scripted {
	return &scripted{live: func() bool { return true }, query: func(_ api.QueryRequest, w io.Writer) error {
		_, err := io.WriteString(w, "{\"n\":1}\n")
		return err
	}}
}

type call struct {
	method, path, body string
	header             map[string]string
	host               string
}

func (c call) do(t *testing.T, client *http.Client, origin string) (int, string, http.Header) {
	t.Helper()
	if c.method == "" {
		c.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), c.method, origin+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	if c.host != "" {
		req.Host = c.host
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), resp.Header
}

func enter(t *testing.T, client *http.Client, origin string) {
	t.Helper()
	_, text, _ := call{method: "POST", path: "/api/enter", body: token,
		header: map[string]string{"Origin": origin}}.do(t, client, origin)
	var got struct{ Key string }
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Key == "" || got.Key == token {
		t.Fatalf("to enter gave %s", text)
	}
	client.Transport.(*keyed).key = got.Key
}

// Nobody gets anything without the token, by another name, or from another page.
func TestGuard(t *testing.T) {
	origin, client := serve(t, session(), false)
	own := map[string]string{"Origin": origin}
	for _, path := range []string{"/api/config", "/api/sessions", "/api/s/1/live", "/api/f",
		"/api/sessions?token=" + token, "/%61pi/sessions", "/api%2fsessions", "//api/sessions", "/./api/sessions"} {
		code, text, _ := call{path: path}.do(t, client, origin)
		if code != http.StatusUnauthorized && code != http.StatusNotFound { // with %2f it is the name of a file
			t.Errorf("%s without the token: %d %s", path, code, text)
		}
	}
	enter(t, client, origin)
	for name, c := range map[string]call{
		"a name that points here": {path: "/api/sessions", host: "evil.example:80"},
		"another port's name":     {path: "/api/sessions", host: "127.0.0.1:1"},
	} {
		if code, text, _ := c.do(t, client, origin); code != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	foreign := map[string]string{"Origin": "http://evil.example"}
	for name, c := range map[string]call{
		"a foreign origin":        {path: "/api/sessions", header: foreign},
		"a foreign origin posts":  {method: "POST", path: "/api/s/1/query", header: foreign},
		"no origin posts":         {method: "POST", path: "/api/s/1/query"},
		"the null origin":         {path: "/api/sessions", header: map[string]string{"Origin": "null"}},
		"a foreign page's script": {path: "/app.js", header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
		"another port's page":     {path: "/api/sessions", header: map[string]string{"Sec-Fetch-Site": "same-site"}},
	} {
		if code, text, _ := c.do(t, client, origin); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	code, text, _ := call{method: "POST", path: "/api/s/1/query", header: own,
		body: `{"SQL":"SELECT 1","Format":"ndjson"}`}.do(t, client, origin)
	if code != http.StatusOK || text != "{\"n\":1}\n" {
		t.Errorf("the page itself: %d %s", code, text)
	}
}

// What another server of this machine learns or sets lets nobody ask: browsers send cookies to every port, and what the
// first address has behind # to none.
func TestAnotherPortGetsNothing(t *testing.T) {
	origin, client := serve(t, session(), true)
	enter(t, client, origin)
	key := client.Transport.(*keyed).key
	code, _, head := call{path: "/"}.do(t, client, origin)
	if head.Get("Set-Cookie") != "" || code == http.StatusUnauthorized {
		t.Errorf("the page: %d, cookie %q", code, head.Get("Set-Cookie"))
	}
	port := origin[strings.LastIndexByte(origin, ':')+1:]
	for _, name := range []string{"memgauge", "memgauge-" + port, "__Host-memgauge", "Memgauge-Key", "token", "key"} {
		for _, value := range []string{key, token} {
			stranger := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for _, path := range []string{"/api/sessions", "/api/s/1/brief", "/api/f", "/?token=" + token} {
				cookie := map[string]string{"Cookie": name + "=" + value}
				code, text, head := call{path: path, header: cookie}.do(t, stranger, origin)
				if strings.HasPrefix(path, "/api") && code != http.StatusUnauthorized || strings.Contains(text, key) ||
					head.Get("Set-Cookie") != "" {
					t.Errorf("%s with cookie %s: %d", path, name, code)
				}
			}
		}
	}
	other, stranger := serve(t, session(), true)
	stranger.Transport.(*keyed).key = key
	if code, _, _ := (call{path: "/api/sessions"}).do(t, stranger, other); code != http.StatusUnauthorized {
		t.Errorf("another server's key: %d", code)
	}
	for _, body := range []string{"", "wrong", token + "x", token[1:], strings.Repeat("x", 1<<20)} {
		if code, text, _ := (call{method: "POST", path: "/api/enter", body: body,
			header: map[string]string{"Origin": origin}}).do(t, stranger, origin); code != http.StatusUnauthorized {
			t.Errorf("to enter with %.20q: %d %s", body, code, text)
		}
	}
}

func TestPolicy(t *testing.T) {
	origin, client := serve(t, session(), false)
	_, _, one := call{path: "/"}.do(t, client, origin)
	_, _, two := call{path: "/"}.do(t, client, origin)
	policy := one.Get("Content-Security-Policy")
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") ||
		!strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("policy %q", policy)
	}
	if policy == two.Get("Content-Security-Policy") {
		t.Error("two pages have the same nonce")
	}
}

func TestEvalIsOffByDefault(t *testing.T) {
	for _, allow := range []bool{false, true} {
		origin, client := serve(t, session(), allow)
		enter(t, client, origin)
		code, text, _ := call{method: "POST", path: "/api/s/1/eval", body: `{"code":"1"}`,
			header: map[string]string{"Origin": origin}}.do(t, client, origin)
		if ran := strings.Contains(text, "ran 1"); ran != allow || allow != (code == http.StatusOK) {
			t.Errorf("allowed %v: %d %s", allow, code, text)
		}
	}
}

// The page is no file server: only a Python file that the session names is read.
func TestSourceReadsOnlyWhatTheSessionNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train.py", "other.py", "secret.txt"} {
		text := "password = 'hunter2hunter2'\n<b>two\nthree\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := session()
	s.about = api.About{Cwd: dir, Started: time.Now()}
	s.query = func(q api.QueryRequest, w io.Writer) error {
		known := strings.Contains(q.SQL, "'train.py:2'") || strings.Contains(q.SQL, "'secret.txt:1'")
		_, err := fmt.Fprintf(w, "{\"n\":%d}\n", map[bool]int{true: 1}[known])
		return err
	}
	origin, client := serve(t, s, false)
	enter(t, client, origin)
	code, text, _ := call{path: "/api/s/1/source?site=train.py:2"}.do(t, client, origin)
	var got struct {
		First, Line int
		Lines       []string
	}
	if err := json.Unmarshal([]byte(text), &got); code != http.StatusOK || err != nil || got.First != 1 ||
		got.Line != 2 || !strings.HasSuffix(strings.Join(got.Lines, "|"), "|<b>two|three") ||
		strings.Contains(text, "hunter2") {
		t.Errorf("%d %s", code, text)
	}
	for _, site := range []string{"other.py:1", "secret.txt:1", "train.py", "train.py:0", "train.py:x", "'",
		"../" + filepath.Base(dir) + "/other.py:1"} {
		if code, text, _ := (call{path: "/api/s/1/source?site=" + site}).do(t, client, origin); code == http.StatusOK {
			t.Errorf("%s was read: %s", site, text)
		}
	}
}

// News come each second, also when the session has ended, until its collector has recorded that.
func TestNewsEndWithTheSession(t *testing.T) {
	s := session()
	asked := 0
	s.live = func() bool { asked++; return asked < 2 }
	s.final = func() bool { return asked > 2 }
	s.query = func(_ api.QueryRequest, w io.Writer) error {
		_, err := io.WriteString(w, `{"from":1,"to":2,"step":7}`+"\n")
		return err
	}
	origin, client := serve(t, s, false)
	enter(t, client, origin)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+"/api/s/1/live", nil)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var lines []string
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			lines = append(lines, data)
		}
	}
	want := `{"to":2,"step":7,"live":true,"final":false} {"to":2,"step":7,"live":false,"final":false} ` +
		`{"to":2,"step":7,"live":false,"final":true}`
	if got := strings.Join(lines, " "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// An answer that breaks off must not look like a whole one.
func TestHalfAnAnswerIsNone(t *testing.T) {
	s := session()
	s.query = func(_ api.QueryRequest, w io.Writer) error {
		_, _ = io.WriteString(w, strings.Repeat("{\"n\":1}\n", 10000))
		return errors.New("out of memory")
	}
	origin, client := serve(t, s, false)
	enter(t, client, origin)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, origin+"/api/s/1/query",
		strings.NewReader(`{"SQL":"SELECT 1","Format":"csv"}`))
	req.Header.Set("Origin", origin)
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err == nil {
		t.Error("the answer looks whole")
	}
}

func TestBadIntervals(t *testing.T) {
	origin, client := serve(t, session(), false)
	enter(t, client, origin)
	for _, q := range []string{"kind=job", "kind=none&from=1&to=2&width=1", "kind=host&from=2&to=1&width=1",
		"kind=host&from=0&to=1000000000&width=1", "kind=host&from=1&to=2&width=0"} {
		if code, text, _ := (call{path: "/api/s/1/series?" + q}).do(t, client, origin); code == http.StatusOK {
			t.Errorf("%s: %s", q, text)
		}
	}
}

// TestCompletionsAreAllowed: the editor completes functions that a question may call, and none that the gate refuses.
func TestCompletionsAreAllowed(t *testing.T) {
	origin, client := serve(t, session(), false)
	enter(t, client, origin)
	code, text, _ := call{path: "/api/s/1/functions"}.do(t, client, origin)
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil || code != http.StatusOK {
		t.Fatalf("%d, %v: %.100s", code, err, text)
	}
	if !slices.Contains(names, "approx_quantile") || slices.Contains(names, "read_parquet") ||
		slices.Contains(names, "json_serialize_plan") || slices.Contains(names, "getenv") {
		t.Errorf("completed are %q", names)
	}
}

// TestPanicIsTold: a bug that a question meets is told to the page with its place, and logged; the server goes on.
func TestPanicIsTold(t *testing.T) {
	said := &env.Buffer{}
	s := session() // which can't say where memory is
	origin, client := serveWith(t, web.Options{Sessions: s, Log: slog.New(slog.NewTextHandler(said, nil))})
	enter(t, client, origin)
	for range 2 {
		code, text, _ := call{path: "/api/s/1/where"}.do(t, client, origin)
		if code != http.StatusInternalServerError || !strings.Contains(text, "a bug of memgauge, at ") {
			t.Errorf("%d: %s", code, text)
		}
	}
	if !strings.Contains(said.String(), "/api/s/1/where") {
		t.Errorf("the log has %q", said)
	}
}
