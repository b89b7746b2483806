package prom

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestToken: every user of a machine reaches its loopback addresses; with a token only those get something who send it.
func TestToken(t *testing.T) {
	s := &Server{loopback: true}
	ask := func(authorization string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9400/", nil)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Header().Get("WWW-Authenticate")
	}
	if code, _ := ask(""); code != http.StatusOK {
		t.Errorf("without a token: %d", code)
	}
	s.Require("sixteen-characters")
	for _, sent := range []string{"", "Bearer", "Bearer ", "Bearer sixteen-character", "sixteen-characters",
		"Bearer sixteen-characters2", "Basic sixteen-characters"} {
		if code, how := ask(sent); code != http.StatusUnauthorized || how != "Bearer" {
			t.Errorf("%q: %d, %q", sent, code, how)
		}
	}
	if code, _ := ask("Bearer sixteen-characters"); code != http.StatusOK {
		t.Errorf("with the token: %d", code)
	}
}
