package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNotesOfAnything: whatever words a remark has, its answer arrives, and the remark is one line of a bounded length.
func TestNotesOfAnything(t *testing.T) {
	for _, text := range []string{"plain", "\x1b[31m\nred\r\n\x00", "\xff\xfe\x7f\u2028",
		strings.Repeat("\x01é", 1<<20)} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add(noteHeader, inHeader(text))
		}))
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			t.Errorf("%.40q: %v", text, err)
			s.Close()
			continue
		}
		resp.Body.Close()
		s.Close()
		note := resp.Header.Get(noteHeader)
		if note == "" || len(note) > maxNote+len("…") || strings.ContainsAny(note, "\x1b\x00\n") {
			t.Errorf("%.40q became %.100q, of %d bytes", text, note, len(note))
		}
	}
}
