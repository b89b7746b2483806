package trino

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReads(t *testing.T) {
	for sql, want := range map[string]bool{
		"SELECT 1": true, "-- growth\n/* x */ with a AS (SELECT 1) SELECT * FROM a": true, "(SELECT 1)": true,
		"EXPLAIN SELECT 1": true, "EXPLAIN ANALYZE VERBOSE SELECT 1": true, "show tables": true, "VALUES 1": true,
		"EXPLAIN ANALYZE DELETE FROM a": false, "INSERT INTO a SELECT 1": false, "": false, "CALL x()": false,
		"-- SELECT\nDROP TABLE a": false, "SELECTED": false,
		"EXPLAIN ANALYZE /* */ EXPLAIN ANALYZE INSERT INTO a": false,
	} {
		if reads(sql) != want {
			t.Errorf("%q: want %v", sql, want)
		}
	}
}

// A server that sends its client elsewhere, or no JSON, is refused; no digit of a BIGINT is lost.
func TestServers(t *testing.T) {
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	defer s.Close()
	c, err := New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.http.CloseIdleConnections()
	for _, c2 := range []struct{ answer, want string }{
		{`{"nextUri": "http://192.0.2.1/v1"}`, "elsewhere"}, {`no JSON`, "read the answer"},
		{`{"error": {"message": "line 1:1: no"}}`, "line 1:1"}} {
		answer = c2.answer
		if _, err := c.Query(t.Context(), "SELECT 1"); err == nil || !strings.Contains(err.Error(), c2.want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	answer = `{"columns": [{"name": "n", "type": "bigint"}], "data": [[9007199254740993]]}`
	rows, err := c.Query(t.Context(), "SELECT 1")
	if err != nil || !rows.Next() || rows.Values()[0] != int64(9007199254740993) || rows.Next() {
		t.Errorf("%v, %v", rows, err)
	}
}

// recording answers every statement with nothing, and keeps it.
func recording(t *testing.T) (*Client, *[]string) {
	t.Helper()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, string(text))
		fmt.Fprint(w, `{"columns": [{"name": "n", "type": "varchar"}], "data": []}`)
	}))
	t.Cleanup(s.Close)
	c, err := New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c, &asked
}

// TestSyncOfBothKinds: hours of any job are of one table, those that a memgauge before kept by job of another, and the
// view has the rows of both.
func TestSyncOfBothKinds(t *testing.T) {
	dir := t.TempDir()
	const ours, formers = "steps/date=2026-01-01/hour=10/tier=r0", "steps/job=llama/date=2026-01-01/hour=09/tier=r0"
	for _, name := range []string{ours + "/x.parquet", formers + "/y.parquet",
		"host_memory/date=2026-01-01/hour=10/tier=r0/x.parquet"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c, asked := recording(t)
	if _, err := c.Sync(t.Context(), Sync{Lake: dir, Seen: "local:///"}); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(*asked, "\n")
	for _, want := range []string{
		"partitioned_by = ARRAY['date', 'hour', 'tier']", "partitioned_by = ARRAY['job', 'date', 'hour', 'tier']",
		` FROM store."steps_hours" UNION ALL SELECT "job", `, ` FROM store."steps"`,
		"table_name => 'steps_hours', partition_columns => ARRAY['date', 'hour', 'tier'], partition_values => " +
			"ARRAY['2026-01-01', '10', 'r0'], location => 'local:///" + ours + "'",
		"table_name => 'steps', partition_columns => ARRAY['job', 'date', 'hour', 'tier'], partition_values => " +
			"ARRAY['llama', '2026-01-01', '09', 'r0'], location => 'local:///" + formers + "'",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(all, `store."host_memory"`) || strings.Contains(all, `"job" varchar, "job"`) {
		t.Errorf("a table too many:\n%s", all)
	}
}
