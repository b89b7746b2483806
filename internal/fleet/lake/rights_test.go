package lake

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/test/rights"
)

// TestRightsOfALake: queries and tables alone, whatever rights somebody claims. What else was asked would meet a
// session that has no answer.
func TestRightsOfALake(t *testing.T) {
	h := Handler(Choice{Location: t.TempDir()}, NewRoom(1), api.Owner)
	rights.Each(t, rights.Lake, &rights.Session{}, func(r api.Route) bool {
		req, err := api.NewRequest(t.Context(), r.Method, r.Target, []byte(`{"sql":"SELECT 1","format":"csv"}`))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w.Code == http.StatusForbidden
	})
}
