// Package trino is the lane in which a real Trino server answers: the same statements over the same lake give the same
// rows in DuckDB and in Trino, before and after hours are merged. It takes 1.8 GB of memory and a minute:
//
//	make test-trino
package trino

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/trino"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/test/env"
	"github.com/memgauge/memgauge/test/frames"
)

const (
	ranks = 16
	steps = 400
)

// TestSameAnswers runs testdata/fleet.sql on both engines.
func TestSameAnswers(t *testing.T) {
	if os.Getenv("MEMGAUGE_TRINO_HOME") == "" { // the list of the test environment alone does not count
		t.Skip("a lane of its own: make test-trino")
	}
	home := env.Trino(t)
	dir := t.TempDir()
	w, err := lake.New(t.Context(), lake.Options{Location: dir, Grace: 1, Linger: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fill(t, w, 0, steps/2)
	client := start(t, home, dir)
	see := trino.Sync{Lake: dir, Seen: "local:///"}
	compare := func(when string) {
		t.Helper()
		if _, err := client.Sync(t.Context(), see); err != nil {
			t.Fatal(err)
		}
		for name, sql := range statements(t) {
			duck, server := askDuck(t, dir, sql), askTrino(t, client, sql)
			if duck != server {
				t.Errorf("%s, %s:\nDuckDB\n%s\nTrino\n%s", when, name, duck, server)
			}
			if strings.Count(duck, "\n") < 2 {
				t.Errorf("%s, %s: no rows:\n%s", when, name, duck)
			}
		}
	}
	compare("flushed")
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	compare("merged")
	fill(t, w, steps/2, steps)
	compare("merged, and flushed again")
	if _, err := w.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	compare("merged again")
	for _, sql := range []string{"DROP VIEW python.steps",
		"EXPLAIN ANALYZE INSERT INTO store.steps SELECT * FROM store.steps",
		"/* SELECT */ CALL system.sync_partition_metadata('store', 'steps', 'FULL')"} {
		_, err := client.Query(t.Context(), sql)
		if err == nil || !strings.Contains(err.Error(), "not one that reads") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if _, err := client.Query(t.Context(), "SELECT nothing FROM python.steps"); err == nil ||
		!strings.Contains(err.Error(), "nothing") {
		t.Errorf("a column that there is not: %v", err)
	}
}

// statements are those of the file, by name.
func statements(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/fleet.sql")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)-- name: (\w+)\n(.*?);`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = m[2]
	}
	return all
}

func askDuck(t *testing.T, dir, sql string) string {
	t.Helper()
	tables, err := lake.Open(t.Context(), lake.Choice{Location: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	var out bytes.Buffer
	if err := tables.Query(t.Context(), api.QueryRequest{SQL: sql, Format: "csv"}, &out); err != nil {
		t.Fatalf("DuckDB: %s: %v", sql, err)
	}
	return out.String()
}

func askTrino(t *testing.T, client *trino.Client, sql string) string {
	t.Helper()
	rows, err := client.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("Trino: %s: %v", sql, err)
	}
	defer rows.Close()
	var out bytes.Buffer
	if err := render.Write(&out, rows, render.CSV, render.Options{}); err != nil {
		t.Fatalf("Trino: %s: %v", sql, err)
	}
	return out.String()
}

// start has the project's own script start a server with one worker, on ports that are free.
func start(t *testing.T, home, dir string) *trino.Client {
	t.Helper()
	port := freePair(t)
	script := filepath.Join(env.Checkout(), "deploy", "trino", "trino")
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(script, args...)
		cmd.Env = append(os.Environ(), "TRINO_HOME="+home, "TRINO_RUN="+filepath.Join(dir, ".trino"),
			fmt.Sprint("TRINO_PORT=", port), "TRINO_HEAP=1G", "TRINO_PATIENCE=300")
		return cmd
	}
	t.Cleanup(func() {
		if out, err := run("stop").CombinedOutput(); err != nil {
			t.Errorf("stop: %v: %s", err, out)
		}
	})
	began := time.Now()
	if out, err := run("start", dir, "1").CombinedOutput(); err != nil {
		t.Fatalf("start: %v: %s", err, out)
	}
	t.Logf("started within %.0f s", time.Since(began).Seconds())
	client, err := trino.New(fmt.Sprint("http://127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// freePair finds two ports in a row that nobody listens on.
func freePair(t *testing.T) int {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+1))
		a.Close()
		if err == nil {
			b.Close()
			return port
		}
	}
	t.Fatal("no two free ports in a row")
	return 0
}

// fill appends some steps of every rank; rank 7 leaks, and a column of every type has values and NULLs.
func fill(t *testing.T, w *lake.Writer, from, to int) {
	t.Helper()
	for rank := range ranks {
		if err := w.Append(t.Context(), steady(rank, from, to)); err != nil {
			t.Fatal(err)
		}
	}
}

var began = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

func steady(rank, from, to int) frame.Batch {
	h := frame.Header{Job: "llama", Node: fmt.Sprintf("node-%d", rank/8), Rank: int32(rank),
		Session: fmt.Sprint("s", rank), Table: "python.steps", First: uint64(from) + 1, Count: to - from}
	return frame.Batch{Header: h, Rows: frames.Rows(frames.Fields(h.Table), h.Count,
		func(f frame.Field, row int) any { return valueOf(h, f, from+row) })}
}

func valueOf(h frame.Header, f frame.Field, step int) any {
	switch f.Type {
	case frame.Text:
		return map[string]string{"job": h.Job, "node": h.Node, "device": "cuda:0"}[f.Name]
	case frame.Time:
		return began.Add(time.Duration(step) * (20*time.Second + time.Microsecond))
	case frame.Int32:
		return map[string]int32{"rank": h.Rank, "pid": 1000 + h.Rank, "world_size": ranks, "steps": 1}[f.Name]
	case frame.Int64:
		return number(f.Name, h.Rank, step)
	case frame.Float64:
		if step == 0 {
			return nil
		}
		return 0.5 + float64(step%3)/4
	}
	return f.Name == "sampled" && step%5 == 0
}

func number(name string, rank int32, step int) int64 {
	switch {
	case name == "step":
		return int64(step)
	case name == "allocated" && rank == 7:
		return 1<<33 + int64(step)<<20
	case name == "allocated":
		return 1<<33 + int64(step%7)<<10
	}
	return int64(rank)<<20 + int64(step)
}
