package web

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/rights"

	"github.com/memgauge/memgauge/internal/door/api"
)

// alone is a machine with one session.
type alone struct{ s *rights.Session }

func (a alone) List(context.Context) ([]api.Listed, []error, error) { return nil, nil, nil }

func (a alone) Open(context.Context, string) (api.Session, error) { return a.s, nil }

func newServer(t *testing.T, s *rights.Session, allowEval bool) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server, err := New(Options{Sessions: alone{s}, AllowEval: allowEval, Token: "sixteen-characters", Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.doors.close)
	return server
}

// TestRightsOfThePage: the sessions that the page is given hold no right that it lacks.
func TestRightsOfThePage(t *testing.T) {
	for carrier, allow := range map[int]bool{rights.Web: false, rights.WebEval: true} {
		s := &rights.Session{}
		server := newServer(t, s, allow)
		rights.Each(t, carrier, s, func(r api.Route) bool {
			d, err := server.doors.enter(t.Context(), "1")
			if err != nil {
				t.Fatal(err)
			}
			defer server.doors.leave(d)
			return rights.Call(t.Context(), d, r)
		})
	}
}

// needs says of each route of the page which right it has to have, so that a new one is thought about.
var needs = map[api.Rights]string{
	0: "GET /{$}; GET /{file}; POST /api/enter",
	api.MayRead: "GET /api/config; GET /api/sessions; GET /api/ranks; GET /api/s/{id}/live; GET /api/f; POST /api/f; " +
		"GET /api/f/{key}; GET /api/f/{key}/tile; GET /api/f/{key}/diff; GET /api/f/{key}/source; " +
		"GET /api/f/{key}/block; GET /api/f/{key}/moment; GET /api/f/{key}/flame; GET /api/f/{key}/segments",
	api.MayQuery: "POST /api/s/{id}/query",
	api.MayEval:  "POST /api/s/{id}/eval",
	api.Reading: "GET /api/s/{id}/brief; GET /api/s/{id}/about; GET /api/s/{id}/tables; GET /api/s/{id}/series; " +
		"GET /api/s/{id}/events; GET /api/s/{id}/where; GET /api/s/{id}/verdicts; GET /api/s/{id}/source; " +
		"GET /api/s/{id}/tensors; POST /api/s/{id}/census; GET /api/s/{id}/stacks; GET /api/s/{id}/cost; " +
		"GET /api/s/{id}/functions; GET /api/s/{id}/native; GET /api/s/{id}/postmortem",
}

// TestRightsOfThePagesRoutes asks each of them, with every right that the page may have.
func TestRightsOfThePagesRoutes(t *testing.T) {
	want := map[string]api.Rights{}
	for right, list := range needs {
		for pattern := range strings.SplitSeq(list, "; ") {
			want[pattern] = right
		}
	}
	fill := strings.NewReplacer("{$}", "", "{file}", "app.js", "{id}", "1", "{key}", "x")
	for _, allow := range []bool{false, true} {
		s := &rights.Session{}
		server := newServer(t, s, allow)
		for _, r := range server.routes() {
			if right, row := want[r.pattern]; !row || right != r.needs {
				t.Errorf("%s needs %q, want %q (a row: %v)", r.pattern, r.needs, right, row)
			}
			method, path, _ := strings.Cut(fill.Replace(r.pattern), " ")
			w := httptest.NewRecorder()
			req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
			server.mux().ServeHTTP(w, req)
			if public := r.needs == 0 && r.pattern != "POST /api/enter"; (w.Code == http.StatusUnauthorized) == public {
				t.Errorf("%s without the key: %d", r.pattern, w.Code)
			}
			if reached := s.Reached(); reached != "" {
				t.Errorf("%s without the key reached %s", r.pattern, reached)
			}
			w = httptest.NewRecorder()
			req = httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
			req.Header.Set(keyHeader, server.key)
			server.mux().ServeHTTP(w, req)
			refused := w.Code == http.StatusForbidden
			if right := !allow && r.needs.Changes(); refused != right {
				t.Errorf("%s with eval %v: %d %s", r.pattern, allow, w.Code, w.Body)
			}
			if reached := s.Reached(); rights.Changed(reached) != (allow && r.needs.Changes()) {
				t.Errorf("%s with eval %v reached %s", r.pattern, allow, reached)
			}
		}
		if n := len(server.routes()); n != len(want) {
			t.Errorf("%d routes, %d rows", n, len(want))
		}
	}
}
