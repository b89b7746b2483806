package lake

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/test/env"
	"github.com/memgauge/memgauge/test/frames"
)

// Batches of the tests: rows of python.steps, one every ten seconds from ten to eleven on, so that they lie in several
// hours.
const (
	nodes     = 3
	batchRows = 50
	rowEvery  = 10 * time.Second
)

var began = time.Date(2026, 1, 1, 10, 50, 0, 0, time.UTC)

func batch(t testing.TB, node, number int) frame.Batch {
	t.Helper()
	h := frame.Header{Job: "llama", Node: fmt.Sprintf("node-%d", node), Rank: int32(node), Session: "s1",
		Table: "python.steps", First: uint64(number*batchRows) + 1, Count: batchRows}
	rows := frames.Rows(frames.Fields(h.Table), batchRows, func(f frame.Field, i int) any {
		row := number*batchRows + i
		switch f.Name {
		case "job":
			return h.Job
		case "node":
			return h.Node
		case "rank":
			return h.Rank
		case "ts":
			return began.Add(time.Duration(row) * rowEvery)
		case "step":
			return row
		case "allocated":
			return node<<40 + row
		}
		return nil
	})
	return frame.Batch{Header: h, Rows: rows}
}

// csv asks a lake.
func csv(t testing.TB, c Choice, sql string) string {
	t.Helper()
	text, err := query(t.Context(), c, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func query(ctx context.Context, c Choice, sql string) (string, error) {
	tables, err := Open(ctx, c)
	if err != nil {
		return "", err
	}
	defer tables.Close()
	var out bytes.Buffer
	err = tables.Query(ctx, api.QueryRequest{SQL: sql, Format: "csv"}, &out)
	_, body, _ := strings.Cut(out.String(), "\n")
	return strings.Join(strings.Fields(body), " "), err
}

func writer(t testing.TB, o Options) *Writer {
	t.Helper()
	w, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// soon is options with which every hour is merged, and what that replaced removed, at once.
func soon(dir string) Options { return Options{Location: dir, Grace: 1, Linger: 1} }

// Rows that come again are left out, also where the batches are cut elsewhere, before and after a merge, and by a
// writer that was started anew.
func TestRowsOnce(t *testing.T) { rowsOnce(t, t.TempDir()) }

func rowsOnce(t *testing.T, location string) {
	const all = "SELECT count(*), count(DISTINCT (node, step)), sum(allocated) FROM python.steps"
	w := writer(t, soon(location))
	var sum int64
	send := func(node, number int) {
		t.Helper()
		b := batch(t, node, number)
		if err := w.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for n := range nodes {
		for k := range 20 {
			send(n, k)
			for i := range batchRows {
				sum += int64(n)<<40 + int64(k*batchRows+i)
			}
		}
	}
	rows := nodes * 20 * batchRows
	want := fmt.Sprintf("%d,%d,%d", rows, rows, sum)
	check := func(when string) {
		t.Helper()
		if got := csv(t, Choice{Location: location}, all); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("appended")
	again := func() {
		for k := range 20 {
			send(1, k)
		}
		b := batch(t, 2, 3)
		tail := frame.Batch{Header: b.Header, Rows: b.Rows.Slice(20, batchRows)} // other cuts
		tail.First, tail.Count = b.First+20, batchRows-20
		if err := w.Append(t.Context(), tail); err != nil {
			t.Fatal(err)
		}
	}
	again()
	check("sent again")
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 4 {
		t.Fatalf("merged %+v, %v; want 4 hours", r, err)
	}
	check("merged")
	again()
	check("sent again after a merge")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = writer(t, soon(location))
	defer w.Close()
	again()
	check("sent again to another writer")
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 0 || r.Removed == 0 {
		t.Errorf("%+v, %v: nothing new was to be merged, and what was replaced removed", r, err)
	}
	check("cleaned")
	askElsewhere(t, location)
}

// askElsewhere asks a part of the lake, under other names, and together with a table that has no rows.
func askElsewhere(t *testing.T, location string) {
	t.Helper()
	late := Choice{Location: location, Since: began.Add(130 * time.Minute)}
	if got := csv(t, late, "SELECT min(hour) FROM global.steps"); got != "13" {
		t.Errorf("since 13:00: the first hour is %s", got)
	}
	got := csv(t, Choice{Location: location, Job: "llama"},
		"SELECT count(*) FROM global.python.steps JOIN process.memory USING (job, node, rank)")
	if got != "0" {
		t.Errorf("a join with an empty table: %s", got)
	}
}

// A lake has one writer, and what lies in it is read by no question but through its tables.
func TestDoors(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	if _, err := New(t.Context(), soon(dir)); err == nil || !strings.Contains(err.Error(), "another process writes") {
		t.Errorf("a second writer: %v", err)
	}
	for _, sql := range []string{"FROM read_parquet('" + dir + "/**')", "FROM '/etc/passwd'",
		"COPY (SELECT 1) TO '/tmp/x'", "FROM read_text('/etc/passwd')", "ATTACH '/tmp/x.duckdb'"} {
		if got, err := query(t.Context(), Choice{Location: dir}, sql); err == nil {
			t.Errorf("%s: %s", sql, got)
		}
	}
	if _, err := Open(t.Context(), Choice{Location: dir, Job: "none"}); err == nil {
		t.Error("a job that there is not")
	}
	if _, err := Open(t.Context(), Choice{Location: dir + "/none"}); err == nil {
		t.Error("a lake that there is not")
	}
}

// TestTablesOnce: each column is described once, although the lake's views are in two databases of DuckDB's.
func TestTablesOnce(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	if err := w.Append(t.Context(), batch(t, 0, 0)); err != nil {
		t.Fatal(err)
	}
	tables, err := Open(t.Context(), Choice{Location: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	list, err := tables.Tables(t.Context(), false)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, of := range list {
		seen := map[string]bool{}
		for _, c := range of.Columns {
			if seen[c.Name] {
				t.Errorf("%s.%s: %s is there twice", of.Schema, of.Name, c.Name)
			}
			seen[c.Name] = true
		}
	}
}

// The oldest hours go first, and nothing of them is left.
func TestGivenUp(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	for k := range 20 {
		b := batch(t, 0, k)
		if err := w.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	r, err := w.Maintain(t.Context())
	if err != nil || r.Hours != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.Close()
	o := soon(dir)
	o.MaxBytes = r.Bytes * 5 / 8
	w = writer(t, o)
	for range 2 { // the first removes what merges replaced as well
		if r, err = w.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if r.Bytes > o.MaxBytes || r.Hours == 0 {
		t.Errorf("%+v, bound %d", r, o.MaxBytes)
	}
	if got := csv(t, Choice{Location: dir}, "SELECT max(hour) FROM python.steps"); got != "13" {
		t.Errorf("the newest hour is %s", got)
	}
	w.Close()
	o = soon(dir)
	o.MaxAge = time.Hour
	w = writer(t, o)
	defer w.Close()
	if _, err = w.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := csv(t, Choice{Location: dir}, "SELECT count(*) FROM python.steps"); got != "0" {
		t.Errorf("%s rows left", got)
	}
}

// Files from the future keep no hour from being merged, nothing that was replaced, and no strays for ever.
func TestTimesInTheFuture(t *testing.T) {
	later := time.Now().Add(24 * 365 * time.Hour)
	dir, w := filled(t)
	age := func(pattern string) {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		for _, name := range list {
			if err := os.Chtimes(name, later, later); err != nil {
				t.Fatal(err)
			}
		}
	}
	age("steps/date=*/hour=*/tier=r0/*.parquet")
	r, err := w.Maintain(t.Context())
	if err != nil || r.Merged != r.Hours || r.Hours == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	age("steps/date=*/hour=*/_gen-*.json")
	if r, err := w.Maintain(t.Context()); err != nil || r.Removed == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	c := content{raw: []entry{{name: "x", modified: later}}}
	if at := c.since(hour{begin: strays}, time.Now()); time.Since(at) < 24*time.Hour {
		t.Errorf("strays came %v", at)
	}
}

// childKey names the lake of a writer that a test kills.
const childKey = "LAKE_TEST_WRITER"

// child appends what its input says, and answers each line when that is done: "NODE NUMBER" or "maintain".
func child() {
	t := &testing.T{}
	w, err := New(context.Background(), soon(os.Getenv(childKey)))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		node, number, two := strings.Cut(in.Text(), " ")
		if two {
			n, _ := strconv.Atoi(node)
			k, _ := strconv.Atoi(number)
			err = w.Append(context.Background(), batch(t, n, k))
		} else {
			_, err = w.Maintain(context.Background())
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ok")
	}
}

// kills is how often the writer is killed.
func kills() int { return env.Times(5, 100) }

// Killed at any moment, the writer loses nothing that it acknowledged, and doubles nothing: each row is compared with
// what was sent. Batches without an answer come again, and so do some of the others.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(11, 17))
	acked := map[[2]int]bool{}
	var waiting [][2]int
	next := 0
	for round := range kills() {
		for range 12 {
			waiting = append(waiting, [2]int{next % nodes, next / nodes})
			next++
		}
		for b := range acked { // a message whose acknowledgement was lost comes again
			if r.IntN(10) == 0 {
				waiting = append(waiting, b)
			}
		}
		waiting = runUntilKilled(t, dir, waiting, acked, time.Duration(r.IntN(150_000))*time.Microsecond)
		checkRows(t, dir, fmt.Sprintf("round %d", round), acked, next, false)
	}
	if left := runUntilKilled(t, dir, waiting, acked, time.Minute); len(left) > 0 {
		t.Fatalf("%d batches are left", len(left))
	}
	checkRows(t, dir, "at the end", acked, next, true)
}

// runUntilKilled sends batches to a writer and kills it so long after the first answer; it returns those without one.
func runUntilKilled(t *testing.T, dir string, send [][2]int, acked map[[2]int]bool, after time.Duration) [][2]int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childKey+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	ask := func(line string) bool {
		if _, err := io.WriteString(in, line+"\n"); err != nil || !answers.Scan() {
			return false
		}
		if answers.Text() != "ok" {
			t.Errorf("the writer says: %s", answers.Text())
		}
		return answers.Text() == "ok"
	}
	var kill *time.Timer
	for i, b := range send {
		if !ask(fmt.Sprintf("%d %d", b[0], b[1])) {
			break
		}
		acked[b] = true
		if kill == nil {
			kill = time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		}
		if i%8 == 7 {
			ask("maintain")
		}
	}
	ask("maintain")
	in.Close()
	if kill != nil {
		kill.Stop()
	}
	_ = cmd.Wait() // killed, or at its end
	var left [][2]int
	for _, b := range send {
		if !acked[b] {
			left = append(left, b)
		}
	}
	return left
}

// checkRows compares the lake with the batches: each row of an acknowledged one once, of the others at most once.
func checkRows(t *testing.T, dir, when string, acked map[[2]int]bool, sent int, whole bool) {
	t.Helper()
	got := csv(t, Choice{Location: dir}, fmt.Sprintf(
		`SELECT rank || ':' || step // %d || ':' || count(*) || ':' || count(DISTINCT step)
			FROM python.steps GROUP BY rank, step // %d`,
		batchRows, batchRows))
	seen := map[[2]int]bool{}
	for line := range strings.FieldsSeq(got) {
		var b [2]int
		var rows, different int
		if _, err := fmt.Sscanf(line, "%d:%d:%d:%d", &b[0], &b[1], &rows, &different); err != nil {
			t.Fatalf("%s: %q: %v", when, line, err)
		}
		if seen[b] = true; rows != different || acked[b] && rows != batchRows {
			t.Errorf("%s: batch %v has %d rows, %d different", when, b, rows, different)
		}
	}
	for b := range acked {
		if !seen[b] {
			t.Errorf("%s: batch %v was acknowledged and is not there", when, b)
		}
	}
	if whole && len(seen) != sent {
		t.Errorf("%s: %d batches of %d", when, len(seen), sent)
	}
}

// Spans against a set.
func TestRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for range 2000 {
		var have ranges
		set := map[uint64]bool{}
		for range r.IntN(12) {
			from := uint64(r.IntN(60))
			s := span{from, from + uint64(r.IntN(9))}
			left := have.minus(s)
			for n := s[0]; n <= s[1]; n++ {
				if in := len(left) > 0 && contains(left, n); in == set[n] {
					t.Fatalf("%v minus %v = %v", have, s, left)
				}
			}
			have = have.add(s)
			for n := s[0]; n <= s[1]; n++ {
				set[n] = true
			}
			for n := range uint64(80) {
				if contains(have, n) != set[n] {
					t.Fatalf("%v after %v", have, s)
				}
			}
			for i := 1; i < len(have); i++ {
				if have[i][0] <= have[i-1][1]+1 {
					t.Fatalf("%v is not in order", have)
				}
			}
		}
	}
}

func contains(r ranges, n uint64) bool {
	for _, s := range r {
		if s[0] <= n && n <= s[1] {
			return true
		}
	}
	return false
}

func FuzzParse(f *testing.F) {
	f.Add("steps/job=a/date=2026-01-01/hour=10/tier=r0/x.parquet")
	f.Add("steps/job=a/date=2026-01-01/hour=10/_gen-3.json")
	f.Fuzz(func(t *testing.T, name string) {
		p, ok := parse(name)
		if ok && !strings.HasPrefix(name, p.hour.dir()) {
			t.Errorf("%q is %+v", name, p)
		}
	})
}
