package lake

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
)

// TestRowsOfALake: a lake is asked like whatever else has rows, and each question sees what has come since the one
// before.
func TestRowsOfALake(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	rows := Of(Choice{Location: dir})
	defer rows.Close()
	count := func() string {
		var out strings.Builder
		q := api.QueryRequest{SQL: "SELECT count(DISTINCT node) AS n FROM python.steps", Format: "csv"}
		if err := rows.Query(t.Context(), q, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for k, want := range []string{"n\n1\n", "n\n2\n"} {
		if err := w.Append(t.Context(), batch(t, k, 0)); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != want {
			t.Errorf("after %d nodes: %q", k+1, got)
		}
	}
	if list, err := rows.Tables(t.Context(), false); err != nil || len(list) == 0 {
		t.Errorf("%d tables, %v", len(list), err)
	}
}
