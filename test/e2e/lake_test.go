package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/test/frames"
)

// TestLake asks a lake of twelve ranks, one of which leaks, as a user does: SQL, tables, the odd rank, its upkeep, and
// what is refused.
func TestLake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.home, "lake")
	makeLake(t, dir)
	at := "lake=" + dir
	got := w.mg(at, "query", "-f", "csv", "--job", "llama",
		"SELECT count(*) AS n, max(rank) AS last, count(DISTINCT node) AS nodes FROM python.steps")
	if got != "n,last,nodes\n3600,11,3\n" {
		t.Errorf("query: %q", got)
	}
	one := "SELECT job, node, rank FROM global.steps WHERE step = 5 AND rank = 7"
	if got := w.mg(at, "query", "-f", "csv", one); got != "job,node,rank\nllama,node-1,7\n" {
		t.Errorf("query of global: %q", got)
	}
	if got := w.mg(at, "tables", "python.steps"); !strings.Contains(got, "name of the job") {
		t.Errorf("tables: %s", got)
	}
	leak := w.do("memgauge", at, "leak")
	if leak.code != 3 || !strings.Contains(leak.stdout, "Rank 7 on node-1 grows by 3.") {
		t.Errorf("leak: %+v", leak)
	}
	var report struct {
		Findings []struct {
			Kind string
			Rank int
		}
		Slopes []any
	}
	if err := json.Unmarshal([]byte(w.do("memgauge", at, "leak", "--json").stdout), &report); err != nil ||
		len(report.Findings) != 1 || report.Findings[0].Rank != 7 || len(report.Slopes) != 12 {
		t.Errorf("leak --json: %+v, %v", report, err)
	}
	if got := w.mg("lake", "merge", dir, "--grace", "1ms"); !strings.HasPrefix(got, "merged 12 files into 1 hours") {
		t.Errorf("merge: %s", got)
	}
	if got := w.mg("lake", "status", dir); !strings.Contains(got, "llama") {
		t.Errorf("status: %s", got)
	}
	refuse := func(code int, hint string, args ...string) {
		t.Helper()
		r := w.do("memgauge", args...)
		if r.code != code || !strings.Contains(r.stderr, hint) || r.stdout != "" {
			t.Errorf("%v: %+v, want %d and %q", args, r, code, hint)
		}
	}
	refuse(2, "about a lake", "query", "--job", "llama", "SELECT 1")
	refuse(2, "engines are", at, "query", "--engine", "spark", "SELECT 1")
	refuse(2, "is not a time", at, "query", "--since", "yesterday", "SELECT 1")
	refuse(1, "jobs in it: llama", at, "query", "--job", "lama", "FROM python.steps")
	refuse(1, "no files", at, "query", "FROM read_parquet('"+dir+"/**/*.parquet')")
	refuse(1, "no such file", "lake="+dir+"-none", "query", "SELECT 1")
	refuse(1, "no such file", "lake", "merge", dir+"-none")
	refuse(1, "starts a server", at, "query", "--engine", "trino", "--trino", "http://127.0.0.1:1", "SELECT 1")
	refuse(2, "is judged as it is", at, "leak", "--watch")
}

// makeLake appends 300 steps of each rank.
func makeLake(t *testing.T, dir string) {
	t.Helper()
	l, err := lake.New(t.Context(), lake.Options{Location: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for rank := range int32(12) {
		h := frame.Header{Job: "llama", Node: fmt.Sprintf("node-%d", rank/4), Rank: rank,
			Session: fmt.Sprint("s", rank), Table: "python.steps", First: 1, Count: 300}
		rows := frames.Rows(frames.Fields(h.Table), h.Count, func(f frame.Field, step int) any {
			return valueOf(h, f.Name, step)
		})
		if err := l.Append(t.Context(), frame.Batch{Header: h, Rows: rows}); err != nil {
			t.Fatal(err)
		}
	}
}

func valueOf(h frame.Header, column string, step int) any {
	switch column {
	case "job":
		return h.Job
	case "node":
		return h.Node
	case "rank":
		return h.Rank
	case "ts":
		return time.Date(2026, 1, 1, 10, 0, step, 0, time.UTC)
	case "step":
		return step
	case "allocated":
		allocated := 1<<33 + step%5<<20
		if h.Rank == 7 && step > 100 {
			allocated += (step - 100) << 22 / 5 * 4
		}
		return allocated
	case "inference":
		return false
	}
	return nil
}
