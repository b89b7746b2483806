package api_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
)

// through asks a handler without a network, as a node does.
type through struct{ h http.Handler }

func (x through) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		r, err = api.NewRequest(r.Context(), r.Method, r.URL.RequestURI(), body)
	}
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	x.h.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestPanicsAreCaught: a handler that panics ends no process, whoever asked learns that and where, and the log has a
// stack of bounded length. So it is where the answer has begun; later panics are logged ever more seldom.
func TestPanicsAreCaught(t *testing.T) {
	said := &bytes.Buffer{}
	begun := false
	s := &scripted{query: func(_ api.QueryRequest, w io.Writer) error {
		if begun {
			if _, err := io.WriteString(w, "n\n1\n"); err != nil {
				return err
			}
		}
		return deep(200, strings.Repeat("x", 100_000))
	}}
	h := api.NewCatcher(slog.New(slog.NewTextHandler(said, nil))).Wrap(api.Handler(s, api.Owner, nil))
	client := api.NewClientOver(through{h})
	for range 20 {
		for _, begun = range []bool{false, true} {
			err := client.Query(t.Context(), api.QueryRequest{SQL: "SELECT 1", Format: "csv"}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "a bug of memgauge, at api_test.deep (caught_test.go:") ||
				len(err.Error()) > 1000 || !strings.Contains(remedy.Of(err), "collector.log") {
				t.Fatalf("begun %t: %.300v, hint %q", begun, err, remedy.Of(err))
			}
		}
	}
	if n := strings.Count(said.String(), "api_test.deep"); n == 0 || strings.Count(said.String(), "\n") != 6 ||
		said.Len() > 6*(16<<10) {
		t.Errorf("%d bytes in the log:\n%.2000s", said.Len(), said)
	}
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	api.NewCatcher(slog.New(slog.DiscardHandler)).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		_ = deep(3, "no")
	})).ServeHTTP(w, req)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d", w.Code)
	}
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("a word to net/http was kept from it")
		}
	}()
	api.NewCatcher(slog.New(slog.DiscardHandler)).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	})).ServeHTTP(w, req)
}

//go:noinline
func deep(n int, word string) error {
	if n > 0 {
		return deep(n-1, word)
	}
	panic(word)
}
