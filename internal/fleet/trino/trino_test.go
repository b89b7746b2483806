package trino

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
