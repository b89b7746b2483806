package e2e

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestHubAnswersFromItsLake: a statement over tables that nodes ship is answered by the hub's lake, over all ranks at
// once; one over live tables, and with --live any, by each session. What is not in the lake is told.
func TestHubAnswersFromItsLake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir, addr := filepath.Join(w.home, "lake"), net.JoinHostPort("127.0.0.1", env.FreePort(t))
	makeLake(t, dir)
	w.start("memgauge", "hub", "--listen", addr, "--lake", dir)
	until(t, "the hub", func() bool { return w.do("memgauge", "hub", "status").code == 0 })
	ask := func(want string, args ...string) result {
		t.Helper()
		r := w.do("memgauge", args...)
		if r.code != 0 || r.stdout != want || !strings.Contains(r.stderr, "from the hub's lake") {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
		return r
	}
	across := "SELECT count(*) AS n, max(rank) AS last, count(DISTINCT node) AS nodes FROM python.steps"
	ask("n,last,nodes\n3600,11,3\n", "hub", "query", "-f", "csv", across)
	ask("n,last,nodes\n300,7,1\n", addr, "job=llama", "rank=7", "query", "-f", "csv", across, "--token-file",
		filepath.Join(w.home, "state", "hub", "ask.token"))
	ask("n,last,nodes\n1200,11,1\n", "node=node-2", "query", "-f", "csv", across)
	ask("k\n12\n", "hub", "query", "-f", "csv", "WITH a AS (SELECT * FROM global.steps WHERE step = 5) "+
		"SELECT count(*) AS k FROM a JOIN a AS b USING (job, node, rank)")
	ask("n,last,nodes\n3600,11,3\n", "hub", "query", "--job", "llama", "--since", "2000-01-01", "--engine", "duckdb",
		"-f", "csv", across)
	ask("n,last,nodes\n0,,0\n", "hub", "query", "--since", "2100-01-01", "-f", "csv", across)
	wrongQueries(t, w, across)
	out := filepath.Join(w.home, "steps.parquet")
	if ask("", "hub", "query", "-o", out, "FROM python.steps"); !exists(out) {
		t.Error("no Parquet was written")
	}
	if r := w.do("memgauge", "hub", "tables", "python.steps"); !strings.Contains(r.stdout, "name of the job") {
		t.Errorf("tables: %+v", r)
	}
	node := w.start("memgauge", "node", "--join", addr, "--name", "n4", "--token-file",
		filepath.Join(w.home, "state", "hub", "join.token"))
	w.start("memgauge", "run", "--quiet", "--name", "fresh", "--", "sleep", "300")
	until(t, "the node and its session", func() bool {
		var s struct{ Nodes []struct{ Sessions int } }
		r := w.do("memgauge", "hub", "status", "--json")
		return json.Unmarshal([]byte(r.stdout), &s) == nil && len(s.Nodes) == 1 && s.Nodes[0].Sessions == 1
	})
	r := w.do("memgauge", "hub", "--strict", "query", "-f", "csv", across)
	if r.code != 1 || r.stdout != "n,last,nodes\n3600,11,3\n" ||
		!strings.Contains(r.stderr, "n4 is missing: it is connected, and the lake has no row of it yet") {
		t.Errorf("a node with no rows in the lake: %+v", r)
	}
	for _, args := range [][]string{{"hub", "--live", "query", "-f", "csv", "SELECT count(*) AS n FROM python.steps"},
		{"hub", "query", "-f", "csv", "SELECT count(*) AS n FROM python.backtrace WHERE false"}} {
		if r := w.do("memgauge", args...); r.code != 0 || r.stdout != "job,node,n\nfresh,n4,0\n" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	r = w.do("memgauge", "hub", "--live", "query", "--since", "2h", across)
	if r.code != 2 || !strings.Contains(r.stderr, "leave out --live") {
		t.Errorf("--since of sessions: %+v", r)
	}
	if err := node.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	node.wait(t)
	r = w.do("memgauge", "hub", "query", across)
	if r.code != 0 || !strings.Contains(r.stderr, "n4 is missing: it is not connected") {
		t.Errorf("a node that is gone: %+v", r)
	}
}

// wrongQueries are told what is wrong; one that would read files is counted too.
func wrongQueries(t *testing.T, w *world, across string) {
	t.Helper()
	for hint, args := range map[string][]string{
		"engines are":        {"hub", "query", "--engine", "spark", across},
		"not a time":         {"hub", "query", "--since", "monday", across},
		"in the statement":   {"hub", "rank=7", "query", "--engine", "trino", across},
		"127.0.0.1:1":        {"hub", "query", "--engine", "trino", "--trino", "http://127.0.0.1:1", across},
		"jobs in it: llama":  {"job=lama", "query", across},
		"nosuch":             {"hub", "query", "SELECT nosuch FROM python.steps"},
		"it looks like":      {"hub", "query", "SELECT * FROM python.steps, '/etc/passwd'"},
		"read_text is not a": {"hub", "query", "SELECT * FROM python.steps, read_text('/etc/passwd')"},
	} {
		r := w.do("memgauge", args...)
		if r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, hint) {
			t.Errorf("%v: %+v, want %q", args, r, hint)
		}
	}
	until(t, "what was refused to be counted", func() bool { // a status is told again for a second
		return strings.Contains(w.do("memgauge", "hub", "status").stdout,
			"refused: question that may not be asked, 2 times")
	})
}
