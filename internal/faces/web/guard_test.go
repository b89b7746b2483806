package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines notes whether a request got a time to arrive in.
type deadlines struct {
	*httptest.ResponseRecorder
	set bool
}

func (d *deadlines) SetReadDeadline(time.Time) error { d.set = true; return nil }

// TestStrangersMayNotStall: who has no key can't keep a connection by sending a body that never ends.
func TestStrangersMayNotStall(t *testing.T) {
	s := &Server{key: "the key", hosts: []string{"127.0.0.1:1"}}
	h := s.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for key, want := range map[string]bool{"": true, "another": true, s.key: false} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:1/api/enter", nil)
		r.Header.Set("Origin", "http://127.0.0.1:1")
		r.Header.Set(keyHeader, key)
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, r)
		if w.set != want || w.Code != http.StatusOK {
			t.Errorf("with the key %q a time is set: %t; %d", key, w.set, w.Code)
		}
	}
}
