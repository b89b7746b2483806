package lake

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/record/store"
	"github.com/memgauge/memgauge/test/frames"
)

// framed is a batch of python.steps with the given columns alone behind job, node and rank; value says what one has.
func framed(h frame.Header, fields []frame.Field, value func(name string, row int) any) frame.Batch {
	front := []frame.Field{{Name: "job", Type: frame.Text}, {Name: "node", Type: frame.Text},
		{Name: "rank", Type: frame.Int32}}
	k := 0
	rows := frames.Rows(append(front, fields...), h.Count, func(f frame.Field, row int) any {
		k++ // names of a stranger's may be those in front
		switch (k - 1) % (len(front) + len(fields)) {
		case 0:
			return h.Job
		case 1:
			return h.Node
		case 2:
			return 0
		}
		return value(f.Name, row)
	})
	return frame.Batch{Header: h, Rows: rows}
}

var (
	tsField   = frame.Field{Name: "ts", Type: frame.Time}
	stepField = frame.Field{Name: "step", Type: frame.Int64}
)

func stranger(first uint64, rows int) frame.Header {
	return frame.Header{Job: "llama", Node: "stranger", Rank: -1, Session: "s", Table: "python.steps", First: first,
		Count: rows}
}

func appended(t testing.TB, w *Writer, b frame.Batch) {
	t.Helper()
	if err := w.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

const typeOfStep = "SELECT DISTINCT typeof(step) FROM python.steps"

// TestColumnsAreOurs: what a node's frames have for columns changes no type, stops no merge, and reaches no file.
func TestColumnsAreOurs(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	appended(t, w, batch(t, 0, 0))
	value := func(name string, row int) any {
		switch name {
		case "ts":
			return began.Add(time.Duration(row) * time.Second)
		case "step":
			return int64(row)
		}
		return "spoilt"
	}
	text := func(name string) frame.Field { return frame.Field{Name: name, Type: frame.Text} }
	appended(t, w, framed(stranger(1, 3), []frame.Field{tsField, text("_session"), text("newer")}, value)) // no step
	appended(t, w, framed(stranger(4, 3), []frame.Field{stepField}, value))                                // no ts
	for _, bad := range [][]frame.Field{{text("STEP")}, {text("step")}, {tsField, text("Node")}} {
		b := framed(stranger(7, 3), bad, value)
		if err := w.Append(t.Context(), b); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	check := func(when string) {
		t.Helper()
		if got := csv(t, Choice{Location: dir}, typeOfStep); got != "BIGINT" {
			t.Errorf("%s: step is %s", when, got)
		}
		got := csv(t, Choice{Location: dir}, "SELECT count(*), count(step), count(ts) FROM python.steps")
		if got != fmt.Sprintf("%d,%d,%d", batchRows+6, batchRows+3, batchRows+3) {
			t.Errorf("%s: %s", when, got)
		}
	}
	check("flushed")
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 2 {
		t.Errorf("%+v, %v: two hours were to be merged", r, err)
	}
	check("merged")
}

// hostileFiles are files that stand where those of an hour do, by name.
func hostileFiles(t *testing.T, good string) map[string][]byte {
	t.Helper()
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	other := writer(t, soon(t.TempDir()))
	defer other.Close()
	appended(t, other, batch(t, 5, 0)) // with numbers of its own, or a merge need not read it
	list, err := filepath.Glob(filepath.Join(other.place.text(), "steps/date=*/hour=10/tier=r0/*.parquet"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	lies, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := 4; i < len(lies)/2; i++ { // pages that are not what the footer says
		lies[i] ^= 0xa5
	}
	far := append([]byte{}, whole...) // a footer that would begin before the file
	copy(far[len(far)-8:], []byte{0xff, 0xff, 0xff, 0x7f})
	files := map[string][]byte{"empty": nil, "text": []byte("not Parquet"), "cut": whole[:len(whole)/2], "pages": lies,
		"footer": far, "magic": []byte("PAR1PAR1")}
	for name, sql := range map[string]string{
		"types":   "SELECT 'x' AS step, 'n' AS node, 1 AS ts",
		"case":    "SELECT 'x' AS \"STEP\", 'n' AS node",
		"nested":  "SELECT {'a': 1} AS step, [1] AS node",
		"without": "SELECT 1 AS nothing_of_ours",
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := store.WriteParquet(t.Context(), sql, path, 100, t.TempDir()); err != nil {
			t.Fatal(err)
		}
		if files[name], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// told wants a reader to name the files that it leaves out.
func told(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	tables, err := Open(t.Context(), Choice{Location: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	note := ""
	tables.Note = func(text string) { note = text }
	_, err = tables.Jobs(t.Context())
	for name := range files {
		if err != nil || !strings.Contains(note, "/"+name+".parquet") {
			t.Errorf("%s was not named: %q, %v", name, note, err)
		}
	}
}

// TestHostileFiles: files in a lake that are damaged, or none of its own, change no type, stop no row from coming and
// no hour from being merged; they are set aside, and named.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	appended(t, w, batch(t, 0, 0))
	raw, err := filepath.Glob(filepath.Join(dir, "steps/date=*/hour=10/tier=r0/*.parquet"))
	if err != nil || len(raw) != 1 {
		t.Fatal(raw, err)
	}
	files := hostileFiles(t, raw[0])
	plant := func(into string) {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(into, name+".parquet"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(when string, rows int) {
		t.Helper()
		if got := csv(t, Choice{Location: dir}, "SELECT count(*), any_value(typeof(step)) FROM python.steps"); got !=
			fmt.Sprintf("%d,BIGINT", rows) {
			t.Errorf("%s: %s", when, got)
		}
	}
	delete(files, "pages") // until a merge has read them nobody can tell
	plant(filepath.Dir(raw[0]))
	check("planted", batchRows)
	told(t, dir, files)
	if err := w.Close(); err != nil { // the next writer has to read them
		t.Fatal(err)
	}
	w = writer(t, soon(dir))
	defer w.Close()
	appended(t, w, batch(t, 1, 0))
	check("a new writer", 2*batchRows)
	files = hostileFiles(t, raw[0])
	plant(filepath.Dir(raw[0]))
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	check("merged", 2*batchRows)
	names, _ := w.Aside()
	for name := range files {
		if !strings.Contains(strings.Join(names, "\n"), "/"+name+".parquet") {
			t.Errorf("%s was not named: %q", name, names)
		}
	}
	appended(t, w, batch(t, 1, 0)) // again
	check("sent again", 2*batchRows)
	plant(filepath.Join(dir, filepath.Dir("steps/date=2026-01-01/hour=10/tier=c1/x")))
	check("planted beside what was merged", 2*batchRows)
	marker := filepath.Join(dir, "steps/date=2026-01-01/hour=11/_gen-7.json")
	if err := os.MkdirAll(filepath.Dir(marker), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(marker, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for k := range 5 { // into the hour of that marker
		appended(t, w, batch(t, 2, k+1))
	}
	if got := csv(t, Choice{Location: dir, Node: "node-2"}, "SELECT count(*) FROM python.steps"); got !=
		fmt.Sprint(5*batchRows) {
		t.Errorf("behind a damaged marker: %s rows", got)
	}
}

// TestManyHours: rows that are spread over thousands of hours, or times that can't be, make no files beyond the bound,
// and come once.
func TestManyHours(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	now := time.Now()
	spread := func(at func(row int) time.Time) frame.Batch {
		return framed(stranger(1, 4000), []frame.Field{tsField}, func(_ string, row int) any { return at(row) })
	}
	rows := func() string {
		return csv(t, Choice{Location: dir}, "SELECT count(*), count(DISTINCT ts) FROM python.steps")
	}
	for name, at := range map[string]func(row int) time.Time{
		"past":      func(row int) time.Time { return now.Add(-time.Duration(row) * time.Hour) },
		"alternate": func(row int) time.Time { return now.Add(-time.Duration(row%2) * 48 * time.Hour) },
		"ahead":     func(row int) time.Time { return now.Add(time.Duration(row+25) * time.Hour) },
		"before":    func(row int) time.Time { return time.Unix(int64(row)*3600, 0) },
	} {
		b := spread(at)
		if names := w.Parts(b); len(names) != 1 {
			t.Errorf("%s: %d partitions", name, len(names))
		}
	}
	ahead := func(row int) time.Time { return now.Add(time.Duration(row+25) * time.Hour).Truncate(time.Second) }
	appended(t, w, spread(ahead))
	if got := rows(); got != "4000,4000" {
		t.Errorf("%s", got)
	}
	// the same come when their time has come nearer
	b := spread(ahead)
	b.Arrived = now.Add(30 * time.Hour)
	part := frame.Batch{Header: stranger(1, 20), Rows: b.Rows.Slice(0, 20), Arrived: b.Arrived}
	appended(t, w, part)
	if got := rows(); got != "4000,4000" {
		t.Errorf("sent again: %s", got)
	}
	files := 0
	for _, h := range sortOut(listed(t, w)) {
		files += len(h.current())
	}
	if files != 1 {
		t.Errorf("%d files", files)
	}
	// a session that was away for a month lies in its own hours
	month := framed(stranger(5001, 24*30), []frame.Field{tsField},
		func(_ string, row int) any { return now.Add(-time.Duration(row) * time.Hour) })
	if names := w.Parts(month); len(names) != 24*30 {
		t.Errorf("a month: %d partitions", len(names))
	}
}

func listed(t testing.TB, w *Writer) []entry {
	t.Helper()
	files, err := w.place.list(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestNumbersOfOthers: a node's numbers take none of another's, whatever it claims, and their gaps are bounded.
func TestNumbersOfOthers(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	one := func(first uint64, rows int) frame.Batch {
		return framed(frame.Header{Job: "llama", Node: "stranger", Rank: -1, Session: "s1", Table: "python.steps",
			First: first, Count: rows}, []frame.Field{tsField}, func(string, int) any { return began })
	}
	appended(t, w, one(1, 2*batchRows)) // the session's id is that of node-0's
	appended(t, w, one(1<<62, batchRows))
	list := make([]frame.Batch, maxSpans+100)
	shared := one(1000, 1)
	for i := range list {
		list[i] = shared
		list[i].First = 1000 + 2*uint64(i)
	}
	if err := w.AppendAll(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if n := w.Refused()[whyGaps]; n != 102 {
		t.Errorf("%d rows refused", n)
	}
	appended(t, w, batch(t, 0, 0))
	appended(t, w, batch(t, 0, 0))
	if got := csv(t, Choice{Location: dir, Node: "node-0"}, "SELECT count(*) FROM python.steps"); got !=
		fmt.Sprint(batchRows) {
		t.Errorf("%s rows of the other node", got)
	}
}

// TestLedgersOfMadeUpNames: what the rows of many made-up names cost is bounded in a partition, where a node with few
// streams has its place whatever others took, and in all partitions together, of which those that were used longest ago
// are read from their files again. No row is there twice, and none is lost but those that are told.
func TestLedgersOfMadeUpNames(t *testing.T) {
	few, most, all := fewCosts, maxCosts, maxLedgers
	defer func() { fewCosts, maxCosts, maxLedgers = few, most, all }()
	fewCosts, maxCosts, maxLedgers = 200, 20_000, 40_000
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	one := func(name string, first uint64, hour int) frame.Batch {
		at := began.Add(time.Duration(hour) * time.Hour)
		return framed(frame.Header{Job: "llama", Node: name, Rank: -1, Session: "s1", Table: "python.steps",
			First: first, Count: 1}, []frame.Field{tsField}, func(string, int) any { return at })
	}
	send := func(list []frame.Batch) {
		t.Helper()
		if err := w.AppendAll(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	var flood []frame.Batch
	for i := range 100 {
		for k := range 20 {
			flood = append(flood, one(fmt.Sprint("made-up-", i), uint64(1+2*k), 0))
		}
	}
	send(flood)
	lost := w.Refused()[whyGaps]
	if _, cost := w.mu.parts[hour{"steps", "", began.Truncate(time.Hour)}].rows.costs(); cost > maxCosts+100*fewCosts ||
		lost == 0 || lost > 1900 {
		t.Errorf("a ledger of %d bytes, %d of 2000 rows lost", cost, lost)
	}
	send([]frame.Batch{one("honest", 1, 0), one("honest", 3, 0), one("honest", 5, 0)})
	if w.Refused()[whyGaps] != lost {
		t.Error("the rows of another node are lost")
	}
	var names []frame.Batch
	for hour := range 20 {
		for i := range 100 {
			names = append(names, one(fmt.Sprint("name-", i), uint64(1+hour), hour))
		}
	}
	for range 2 { // as they would come again
		send(names)
	}
	if w.mu.bytes > maxLedgers || len(w.mu.parts) > 15 {
		t.Errorf("%d bytes of %d partitions", w.mu.bytes, len(w.mu.parts))
	}
	sum := int64(0)
	for _, p := range w.mu.parts {
		_, cost := p.rows.costs()
		sum += cost
	}
	if sum != w.mu.bytes {
		t.Errorf("%d bytes are there, %d counted", sum, w.mu.bytes)
	}
	lost = w.Refused()[whyGaps]
	if got := csv(t, Choice{Location: dir}, "SELECT count(*) FROM python.steps"); got != fmt.Sprint(4003-lost) {
		t.Errorf("%s rows, %d lost", got, lost)
	}
}

// FuzzListing: whatever names a listing has, nothing panics, and no name leaves the lake.
func FuzzListing(f *testing.F) {
	f.Add("../job=a/date=2026-01-01/hour=10/tier=r0/x.parquet", "steps/job=../date=2026-01-01/hour=10/_gen-3.json")
	f.Add("steps/job=a/date=2026-01-01/hour=10/tier=r+1/..parquet", "steps/job=a/date=2026-01-01/hour=10/_gen-9.json")
	f.Fuzz(func(t *testing.T, a, b string) {
		for h, c := range sortOut([]entry{{a, 1, began}, {b, 2, began}}) {
			for _, e := range append(c.current(), c.old...) {
				rel, err := filepath.Rel("/cache", filepath.Join("/cache", filepath.FromSlash(e.name)))
				if err != nil || rel != e.name || strings.HasPrefix(rel, ".") || !strings.HasPrefix(e.name, h.dir()) {
					t.Fatalf("%q of %q is at %q", e.name, h.dir(), rel)
				}
			}
		}
	})
}

// A file says in its footer which rows it holds, so that none is kept twice. One that holds others would keep those of
// somebody else out: it is set aside, and named.
func TestFooterThatLies(t *testing.T) {
	from := writer(t, soon(t.TempDir()))
	defer from.Close()
	appended(t, from, batch(t, 5, 0))
	list, err := filepath.Glob(filepath.Join(from.place.text(), tenOClock, "tier=r0/*.parquet"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	text, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf(`{"node-5/s1":[[1,%d]]}`, batchRows)
	for what, claim := range map[string]string{
		"of another's": strings.Replace(own, "node-5", "node-0", 1),
		"more":         strings.Replace(own, fmt.Sprint(batchRows), strings.Repeat("9", len(fmt.Sprint(batchRows))), 1),
	} {
		lies := bytes.Replace(text, []byte(own), []byte(claim), 1)
		if bytes.Equal(lies, text) {
			t.Fatalf("no %s in the footer", own)
		}
		dir := t.TempDir()
		w := writer(t, soon(dir))
		appended(t, w, batch(t, 0, 0))
		planted(t, dir, tenOClock+"/tier=r0/0-1-1.parquet", string(lies))
		if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 1 {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
		if got := csv(t, Choice{Location: dir, Node: "node-0"}, countRows); got != fmt.Sprint(batchRows) {
			t.Errorf("%s: %s rows", what, got)
		}
		if names, _ := w.Aside(); len(names) != 1 || !strings.Contains(names[0], "/0-1-1.parquet") {
			t.Errorf("%s: %q were set aside", what, names)
		}
		w.Close()
	}
}

// A file whose columns are nested so deep that DuckDB would crash, or so many that it would take minutes, fails no
// question to its table: it is left out, and named.
func TestHostileSchemas(t *testing.T) {
	dir, _ := filled(t)
	files := map[string][]byte{"deep": schemaOf(100_000, 1), "wide": schemaOf(300_000, 0)}
	for name, text := range files {
		planted(t, dir, tenOClock+"/tier=r0/"+name+".parquet", string(text))
	}
	if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(20*batchRows) {
		t.Errorf("%s rows", got)
	}
	told(t, dir, files)
}
