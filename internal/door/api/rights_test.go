package api_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/test/rights"
)

// raw sends the bytes of a request to a socket, and gives the status of the first answer.
func raw(t *testing.T, socket, request string) int {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0 // it hung up
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func text(r api.Route, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: memgauge.local\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		r.Method, r.Target, len(body), body)
}

// TestRightsOfTheSocket: its user may do everything, in the one spelling that each question has.
func TestRightsOfTheSocket(t *testing.T) {
	s := &rights.Session{}
	_, socket := serve(t, s)
	rights.Each(t, rights.Socket, s, func(r api.Route) bool {
		return raw(t, socket, text(r, rights.Body(r))) != http.StatusOK
	})
	for _, r := range rights.Attacks {
		code := raw(t, socket, text(r, "{}"))
		if got := s.Reached(); got != "" && got != "about" {
			t.Errorf("%q %q reached %s with %d", r.Method, r.Target, got, code)
		}
	}
}

// TestHandlerKeepsToItsRights: each right alone lets its own questions through, and no others.
func TestHandlerKeepsToItsRights(t *testing.T) {
	for i := range 6 {
		right := api.Rights(1 << i)
		s := &rights.Session{}
		h := api.Handler(s, right, func() { s.Note("finish") })
		for _, r := range api.Routes() {
			if r.Needs == api.MayFinish && right == api.MayFinish {
				continue // its answer is the outcome, which is read
			}
			req, err := api.NewRequest(t.Context(), r.Method, r.Target, []byte(rights.Body(r)))
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			reached, has := s.Reached(), r.Needs == right
			if (w.Code == http.StatusOK) != has || !has && reached != "" {
				t.Errorf("%s with %s: %d, reached %q", r.Target, right, w.Code, reached)
			}
		}
	}
}

// TestBodiesSmuggleNothing: a deep census needs its right wherever it says so, and nothing may follow a request.
func TestBodiesSmuggleNothing(t *testing.T) {
	s := &rights.Session{}
	h := api.Handler(s, api.Reading, nil)
	for _, body := range []string{`{"deep":true}`, `{"DEEP":true}`, `{"deep":false,"deep":true}`, `{}{"deep":true}`,
		`{} POST /v1/eval HTTP/1.1`, "{}\r\n\r\nPOST /v1/eval HTTP/1.1\r\n\r\n{}"} {
		req, err := api.NewRequest(t.Context(), "POST", "/v1/census", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-HTTP-Method-Override", "PUT")
		req.Header.Set("X-Original-URL", "/v1/eval")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if reached := s.Reached(); w.Code == http.StatusOK || reached != "" {
			t.Errorf("%q: %d, reached %q", body, w.Code, reached)
		}
	}
}

// TestLimit: a limited session stays so, and its refusal is told as one across a socket, with what to do.
func TestLimit(t *testing.T) {
	s := &rights.Session{}
	twice := api.Limit(api.Limit(s, api.Reading), api.Owner)
	if _, err := twice.Eval(t.Context(), api.EvalRequest{}, api.EvalOutput{}); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("eval through two limits: %v", err)
	}
	c, _ := serve(t, api.Limit(s, api.Reading))
	_, err := c.Record(t.Context(), api.RecordRequest{})
	if !errors.Is(err, api.ErrForbidden) || s.Reached() != "" {
		t.Errorf("record over a socket: %v", err)
	}
	if none := api.Limit(s, 0); !errors.Is(none.Query(t.Context(), api.QueryRequest{}, io.Discard), api.ErrForbidden) {
		t.Error("no right at all lets one ask")
	}
}

func TestAllowed(t *testing.T) {
	for words, want := range map[string]api.Rights{"": 0, "eval": api.Changing, "record": api.MayRecord,
		"record snapshot": api.MayRecord | api.MaySnapshot} {
		if got, err := api.Allowed(strings.Fields(words)); got != want || err != nil {
			t.Errorf("%s: %s, %v", words, got, err)
		}
	}
	for _, word := range []string{"finish", "Eval", "all", "read", ""} {
		if got, err := api.Allowed([]string{word}); err == nil || got != 0 {
			t.Errorf("%q: %s", word, got)
		}
	}
}

// FuzzRights: whatever is sent, and whatever a parser makes of it, who may read changes nothing; and what is told to
// need no more than reading changes nothing for anybody.
func FuzzRights(f *testing.F) {
	for _, r := range append(api.Routes(), rights.Attacks...) {
		f.Add(r.Method, r.Target, rights.Body(r))
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		s := &rights.Session{}
		finish := func() { s.Note("finish") }
		requests := requestsOf(t, method, target, body)
		reading := api.Handler(s, api.Reading, finish)
		for _, make := range requests {
			if r := make(); r != nil {
				reading.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		if reached := s.Reached(); rights.Changed(reached) {
			t.Fatalf("%q %q %q reached %s", method, target, body, reached)
		}
		needs, err := api.Needs(method, target)
		if err != nil || !api.Reading.Has(needs) {
			return
		}
		for _, make := range requests {
			if r := make(); r != nil {
				api.Handler(s, api.Owner&^api.MayEval, finish).ServeHTTP(httptest.NewRecorder(), r)
				api.Handler(s, api.Reading|needs, finish).ServeHTTP(httptest.NewRecorder(), make())
			}
		}
		if reached := s.Reached(); rights.Changed(reached) {
			t.Fatalf("%q %q %q was said to need %s, and reached %s", method, target, body, needs, reached)
		}
	})
}

// requestsOf are the requests that may be made of a question: by a server from bytes, by a client from an address, by
// package api, and by somebody who sets all fields as they come. Each is made anew, since a body is read once.
func requestsOf(t *testing.T, method, target, body string) []func() *http.Request {
	own := func(r *http.Request, err error) *http.Request {
		if err != nil {
			return nil
		}
		return r
	}
	return []func() *http.Request{
		func() *http.Request {
			wire := text(api.Route{Method: method, Target: target}, body)
			return own(http.ReadRequest(bufio.NewReader(strings.NewReader(wire))))
		},
		func() *http.Request {
			return own(http.NewRequestWithContext(t.Context(), method, "http://"+api.Host+target,
				strings.NewReader(body)))
		},
		func() *http.Request { return own(api.NewRequest(t.Context(), method, target, []byte(body))) },
		func() *http.Request {
			u, err := url.Parse(target)
			if err != nil {
				u = &url.URL{Path: target}
			}
			return (&http.Request{Method: method, URL: u, RequestURI: target, Host: api.Host, Header: http.Header{},
				Body: io.NopCloser(strings.NewReader(body))}).WithContext(t.Context())
		},
	}
}
