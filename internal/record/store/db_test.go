package store

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// everything has a row for each table, with and without what may be missing.
func everything() *model.Batch {
	return &model.Batch{
		Names: []model.Name{{ID: 1, Text: "a.module.with.a.long.name"}, {ID: 2, Text: "é"}},
		Processes: []model.Process{{PID: 1, StartTicks: 10, PPID: 0, Rank: -1, LocalRank: -1, World: -1, Started: 5e15,
			Ended: model.Null, Argv: "python x.py"},
			{PID: 2, StartTicks: 20, PPID: 1, Parent: 1, Rank: 0, LocalRank: 0, World: 2, Started: 5e15, Ended: 6e15,
				End: "exited", Python: "3.12.1"}}, Trace: []model.Trace{
			{Time: 5e15, PID: 1, Rank: -1, World: -1, Step: 3, Micro: 1, Seq: 2, Module: 1, Stage: 4, Device: -1,
				Allocated: 1 << 20, MaxAllocated: model.Null, Cached: 3 << 19, MaxCached: model.Null,
				AllocatedDelta: model.Null, MaxAllocatedDelta: model.Null, OffsetNS: 0, DurationNS: model.Null},
			{Time: 5e15 + 1, PID: 2, Rank: 1, World: 2, Step: 4, Module: 2, Stage: 5, Device: 126, Allocated: 1,
				AllocatedDelta: -1 << 20, OffsetNS: 1, DurationNS: 2e9}}, Steps: []model.Step{
			{Time: 5e15, PID: 1, Rank: -1, World: -1, Step: 3, Steps: 1, DurationNS: model.Null, Sampled: true,
				Device: -1, Allocated: 1, MaxAllocated: model.Null, RSS: 2, MaxRSS: model.Null, HeapInUse: model.Null,
				HeapHeld: model.Null, PyBlocks: model.Null, GCCollections: model.Null, GCFull: model.Null, AgentNS: 7}},
		Events: []model.Event{{Time: 5e15, PID: 1, Rank: -1, Name: "eval", Text: "print('it''s')\xff", A: 1,
			B: model.Null}}, Overheads: []model.Overhead{{Time: 5e15, PID: 1, Rank: 0, Part: "hooks", NS: 25, Count: 2,
			Steps: 3, CoveredNS: 100, Gap: model.Null, Measured: true}, {Time: 5e15, Part: "none"}},
		Drops:   []model.Drop{{Time: 5e15, PID: 0, Source: "r.ring", Reason: "overwritten", Records: 9, Detail: "1-9"}},
		Cursors: []model.Cursor{{RingID: 1<<64 - 1, File: "it's.ring", Seq: 1<<63 + 5, Done: true}},
		Tensors: []model.TensorGroup{{Time: 5e15, PID: 1, Rank: -1, Census: 1, Step: model.Null, Shape: "(2, 3)",
			Dtype: "float32", Device: "cuda:0", Role: "tensor", Count: 4, Bytes: 96, Fresh: model.Null,
			OldestStep: model.Null, Holder: "__main__.kept[*]", Estimated: true}}, Objects: []model.ObjectGroup{
			{Time: 5e15, PID: 1, Rank: 0, Census: 2, Step: 7, Evidence: "container", Type: "builtins.list", Count: 1,
				Delta: -2, Length: 5, Bytes: model.Null, Site: "a.py:3"}}, Findings: []model.Finding{
			{Time: 5e15, Judgement: 1, Run: "leak", Verdict: "leak", Class: "retained_tensors", Memory: "host heap",
				PID: 1, Rank: -1, Rate: 1 << 20, Low: model.MB(math.NaN()), High: model.MB(math.Inf(1)), Start: 3,
				End:      model.Null,
				Readings: 12, Holder: "__main__.kept"}},
	}
}

// firstColumns are those that a table has had since it was made.
func firstColumns(name string) string {
	var columns []string
	for _, c := range table.Find(name).Columns {
		if c.Since == 0 && c.Name != "" {
			columns = append(columns, c.Name)
		}
	}
	return cmp.Or(strings.Join(columns, ", "), "*")
}

// contents is every table of the first schema as text.
func contents(t *testing.T, db *DB) string {
	t.Helper()
	var s strings.Builder
	for _, name := range []string{"python.torch_trace", "python.steps", "memgauge.events", "memgauge.overhead",
		"memgauge.drops", "memgauge.processes", "store.names", "store.cursors"} {
		for _, row := range ask(t, db, "SELECT "+firstColumns(name)+" FROM "+name+" ORDER BY ALL") {
			fmt.Fprintln(&s, name, row)
		}
	}
	return s.String()
}

const wantContents = `python.torch_trace [5000000000000000 2128-06-11 08:53:20 +0000 UTC 1 <nil> <nil> 3 3 3 1 2 a.module.with.a.long.name pre backward cpu 1 <nil> 1.5 <nil> <nil> <nil> 0 <nil> true]
python.torch_trace [5000000000000001 2128-06-11 08:53:20.000001 +0000 UTC 2 1 2 4 4 4 0 0 é post backward cuda:126 9.5367431640625e-07 0 0 0 -1 0 1e-09 2 true]
python.steps [2128-06-11 08:53:20 +0000 UTC 1 <nil> <nil> 3 1 <nil> true false cpu 1 <nil> 0 0 2 0 <nil> <nil> <nil> <nil> <nil> <nil> 7]
memgauge.events [2128-06-11 08:53:20 +0000 UTC 1 <nil> eval print('it''s')` + "\uFFFD" + ` 1 <nil>]
memgauge.overhead [2128-06-11 08:53:20 +0000 UTC 1 0 hooks 25 2 3 100 0.25 <nil> true]
memgauge.overhead [2128-06-11 08:53:20 +0000 UTC <nil> 0 none 0 0 0 0 <nil> 0 false]
memgauge.drops [2128-06-11 08:53:20 +0000 UTC <nil> r.ring overwritten 9 1-9]
memgauge.processes [1 10 <nil> <nil> <nil> <nil> <nil> 2128-06-11 08:53:20 +0000 UTC <nil>  python x.py    ]
memgauge.processes [2 20 1 1 0 0 2 2128-06-11 08:53:20 +0000 UTC 2160-02-18 10:40:00 +0000 UTC exited    3.12.1 ]
store.names [1 a.module.with.a.long.name]
store.names [2 é]
store.cursors [18446744073709551615 it's.ring 9223372036854775813 true]
`

func TestAppendStoresEveryTable(t *testing.T) {
	db := open(t, Options{})
	add(t, db, everything())
	if got := contents(t, db); got != wantContents {
		t.Errorf("got\n%s\nwant\n%s", got, wantContents)
	}
}

func TestCensusTables(t *testing.T) {
	db := open(t, Options{})
	add(t, db, everything())
	if got := fmt.Sprint(ask(t, db, "SELECT * EXCLUDE (ts, pid) FROM python.tensors")); got !=
		"[[<nil> 1 <nil> (2, 3) float32 cuda:0 tensor 4 96 <nil> <nil> <nil> __main__.kept[*] true]]" {
		t.Errorf("tensors %s", got)
	}
	if got := fmt.Sprint(ask(t, db, "SELECT * EXCLUDE (ts, pid) FROM python.objects")); got !=
		"[[0 2 7 container builtins.list 1 -2 5 <nil> <nil> a.py:3  false]]" {
		t.Errorf("objects %s", got)
	}
}

func TestProcessesAndCursorsAreReplaced(t *testing.T) {
	db := open(t, Options{})
	add(t, db, everything())
	add(t, db, &model.Batch{
		Processes: []model.Process{{PID: 1, StartTicks: 10, Ended: model.Null},
			{PID: 1, StartTicks: 10, Ended: 7e15, End: "vanished"}, {PID: 1, StartTicks: 11, Ended: model.Null}},
		Cursors: []model.Cursor{{RingID: 1<<64 - 1, File: "b.ring", Seq: 1},
			{RingID: 1<<64 - 1, File: "b.ring", Seq: 2}, {RingID: 5, Seq: 3}}})
	if got := fmt.Sprint(ask(t, db,
		"SELECT pid, start_ticks, ending FROM memgauge.processes ORDER BY ALL")); got != "[[1 10 vanished] [1 11 ] [2 20 exited]]" {
		t.Errorf("processes %s", got)
	}
	got, err := db.Cursors(context.Background())
	if err != nil || len(got) != 2 || got[1<<64-1] != (model.Cursor{RingID: 1<<64 - 1, File: "b.ring", Seq: 2}) ||
		got[5].Seq != 3 {
		t.Errorf("cursors %v, %v", got, err)
	}
}

// A batch that can't be stored leaves nothing, and the same names can come again.
func TestAppendIsAllOrNothing(t *testing.T) {
	db := open(t, Options{})
	b := everything()
	b.Trace[1].Module = 99
	if err := db.Append(context.Background(), b); err == nil || !strings.Contains(err.Error(), "no name 99") {
		t.Fatalf("error %v", err)
	}
	if got := contents(t, db); got != "" {
		t.Errorf("left behind:\n%s", got)
	}
	b.Trace[1].Module, b.Trace[1].Stage = 2, 6
	if err := db.Append(context.Background(), b); err == nil || !strings.Contains(err.Error(), "no stage 6") {
		t.Fatalf("error %v", err)
	}
	add(t, db, everything())
	if got := contents(t, db); got != wantContents {
		t.Errorf("got\n%s", got)
	}
	b = &model.Batch{Names: []model.Name{{ID: 1, Text: "another"}}}
	if err := db.Append(context.Background(), b); err == nil {
		t.Error("name 1 was given another text")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.Append(ctx, everything()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestNamesSurviveReopening(t *testing.T) {
	db := open(t, Options{})
	add(t, db, everything())
	db.Close()
	db = open(t, Options{Path: db.o.Path})
	add(t, db, &model.Batch{Trace: []model.Trace{{PID: 1, Module: 1, Step: 9}, {PID: 1, Step: 10}}})
	if got := fmt.Sprint(ask(t, db,
		"SELECT module FROM python.torch_trace WHERE step >= 9 ORDER BY step")); got != "[[a.module.with.a.long.name] [?]]" {
		t.Errorf("modules %s", got)
	}
	names, err := db.Names(context.Background())
	if err != nil || fmt.Sprint(names) != "[{1 a.module.with.a.long.name} {2 é}]" {
		t.Errorf("names %v, %v", names, err)
	}
}

// recordedV1 is a database as version 1 of the schema left it; see TestMakeRecording.
const recordedV1 = "../../../testdata/databases/v1.duckdb.gz"

// The databases of all releases open, and hold what they held.
func TestDatabasesOfEveryReleaseOpen(t *testing.T) {
	packed, err := os.ReadFile(recordedV1)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "session.duckdb")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		db := open(t, Options{Path: path, ReadOnly: readOnly})
		if got := contents(t, db); got != wantContents {
			t.Errorf("read only %t: got\n%s\nwant\n%s", readOnly, got, wantContents)
		}
		db.Close()
	}
}

// TestMakeRecording writes the database of the current schema, once for each release: MEMGAUGE_RECORD=file go test -run
// MakeRecording
func TestMakeRecording(t *testing.T) {
	target := os.Getenv("MEMGAUGE_RECORD")
	if target == "" {
		t.Skip("MEMGAUGE_RECORD names no file")
	}
	db := open(t, Options{})
	add(t, db, everything())
	db.Close()
	data, err := os.ReadFile(db.o.Path)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	z.Close()
	if err := os.WriteFile(target, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// alter runs a statement on a closed database behind the store's back.
func alter(t *testing.T, path, sql string) {
	t.Helper()
	o := Options{Path: path, TempDir: t.TempDir(), outside: true}.withDefaults()
	if err := onFile(o, func(c *conn) error { return c.exec(sql) }); err != nil {
		t.Fatal(err)
	}
}

func TestForeignSchemasAreRefused(t *testing.T) {
	for sql, want := range map[string]error{
		"INSERT INTO store.migrations VALUES (99, '0099_later', 'x', now()::TIMESTAMP)": ErrNewer,
		"UPDATE store.migrations SET checksum = 'x'":                                    ErrEdited,
	} {
		db := open(t, Options{})
		db.Close()
		alter(t, db.o.Path, sql)
		if _, err := Open(context.Background(), Options{Path: db.o.Path}); !errors.Is(err, want) ||
			!strings.Contains(err.Error(), db.o.Path) {
			t.Errorf("after %s: error %v, want %v", sql, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "other.duckdb")
	alter(t, path, "CREATE TABLE mine (a INT)")
	if _, err := Open(context.Background(), Options{Path: path}); !errors.Is(err, ErrEdited) {
		t.Errorf("somebody else's database: %v", err)
	}
}

func TestBadFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "session.duckdb")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("garbage "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	reserved := filepath.Join(dir, "memgauge.duckdb")
	for path, want := range map[string]string{garbage: "no database",
		filepath.Join(dir, "no", "session.duckdb"): "no/session.duckdb", reserved: "another name"} {
		if _, err := Open(context.Background(), Options{Path: path}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to contain %q", path, err, want)
		}
	}
}

// A database has one owner at a time.
func TestAnotherProcessIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.duckdb")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), Options{Path: path}); !errors.Is(err, ErrLocked) {
		t.Errorf("error %v, want %v", err, ErrLocked)
	}
}

func TestReadOnly(t *testing.T) {
	db := open(t, Options{})
	add(t, db, everything())
	db.Close()
	db = open(t, Options{Path: db.o.Path, ReadOnly: true})
	if got := contents(t, db); got != wantContents {
		t.Errorf("got\n%s", got)
	}
	if err := db.Append(context.Background(), everything()); err == nil {
		t.Error("appending worked")
	}
}

// exportFile writes the answer to a query as a file.
func exportFile(t *testing.T, db *DB, sql, path string) {
	t.Helper()
	var out bytes.Buffer
	if err := db.ExportTo(t.Context(), sql, &out); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestExport(t *testing.T) {
	db := open(t, Options{})
	fillTrace(t, db, 5000, 5000, 0)
	out := filepath.Join(t.TempDir(), "it's.parquet")
	sql := "SELECT step, module, stage, allocated FROM python.torch_trace WHERE module LIKE '%attn%' -- it's a comment\n;"
	exportFile(t, db, sql, out)
	// DuckDB, not shut in, reads the same rows back.
	free := filepath.Join(t.TempDir(), "free.duckdb")
	o := Options{Path: free, TempDir: filepath.Dir(out)}.withDefaults()
	e, err := openEngine(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	c, err := e.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	got, err := c.one("SELECT count(*), sum(allocated), min(module), max(stage) FROM read_parquet(" + quote(out) + ")")
	if err != nil {
		t.Fatal(err)
	}
	want := ask(t, db,
		"SELECT count(*), sum(allocated), min(module), max(stage) FROM python.torch_trace WHERE module LIKE '%attn%'")[0]
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("exported %v, want %v", got, want)
	}
	for _, sql := range []string{"DROP TABLE store.trace", "SELECT 1) TO '/tmp/x'; --",
		"SELECT nope FROM python.steps"} {
		if err := db.ExportTo(context.Background(), sql, io.Discard); err == nil {
			t.Errorf("%s was exported", sql)
		}
	}
	if left, err := os.ReadDir(db.o.TempDir); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

// Every column is documented, and the trace has the promised ones.
func TestTables(t *testing.T) {
	db := open(t, Options{})
	add(t, db, everything())
	for _, all := range []bool{false, true} {
		tables, err := db.Tables(context.Background(), all)
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string]int64{}
		for _, table := range tables {
			name := table.Schema + "." + table.Name
			rows[name] = table.Rows
			if table.Doc == "" {
				t.Errorf("%s is not documented", name)
			}
			for _, c := range table.Columns {
				if c.Doc == "" {
					t.Errorf("%s.%s is not documented", name, c.Name)
				}
			}
			if name == "python.torch_trace" {
				checkTraceColumns(t, table.Columns)
			}
		}
		_, physical := rows["store.cursors"]
		if physical != all || rows["python.torch_trace"] != 2 || rows["memgauge.processes"] != 2 ||
			rows["memgauge.drops"] != 1 {
			t.Errorf("all %t: rows %v", all, rows)
		}
	}
}

func checkTraceColumns(t *testing.T, got []model.ColumnDoc) {
	t.Helper()
	var s []string
	for _, c := range got {
		s = append(s, c.Name+" "+c.Type)
	}
	const want = "timestamp BIGINT, ts TIMESTAMP, pid INTEGER, rank INTEGER, world_size INTEGER, step BIGINT, local_step BIGINT, global_step BIGINT, micro_step INTEGER, seq INTEGER, module VARCHAR, stage VARCHAR, device VARCHAR, " +
		"allocated DOUBLE, max_allocated DOUBLE, cached DOUBLE, max_cached DOUBLE, allocated_delta DOUBLE, max_allocated_delta DOUBLE, time_offset DOUBLE, duration DOUBLE, sampled BOOLEAN"
	if strings.Join(s, ", ") != want {
		t.Errorf("python.torch_trace has\n%s, want\n%s", strings.Join(s, ", "), want)
	}
}

// Enums sort and compare like the texts that they are.
func TestEnumsBehaveLikeText(t *testing.T) {
	db := open(t, Options{})
	var b model.Batch
	for d := range 128 {
		b.Trace = append(b.Trace, model.Trace{PID: 1, Stage: model.Stage(d % 6), Device: int8(d - 1)})
	}
	add(t, db, &b)
	for _, col := range []string{"stage", "device"} {
		if got := ask(t, db,
			fmt.Sprintf("SELECT (SELECT list(%[1]s::VARCHAR ORDER BY %[1]s) FROM python.torch_trace) = (SELECT list(%[1]s::VARCHAR ORDER BY %[1]s::VARCHAR) FROM python.torch_trace)", col)); got[0][0] != true {
			t.Errorf("%s does not sort like its text", col)
		}
	}
	if got := fmt.Sprint(ask(t, db,
		"SELECT count(*) FILTER (stage = 'nonsense'), count(*) FILTER (stage LIKE 'post%'), count(*) FILTER (stage IN ('pre step', 'x')), count(DISTINCT device || '') FROM python.torch_trace")); got != "[[0 64 21 128]]" {
		t.Errorf("comparisons give %s", got)
	}
}

// Stacks are stored also where nothing was before: the first use of the writer has transactions of its own.
func TestBacktraceFirst(t *testing.T) {
	db := open(t, Options{})
	if err := db.SetBacktrace(t.Context(), someStacks); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, db, "SELECT count(*) FROM python.backtrace"); got[0][0].(int64) == 0 {
		t.Error("python.backtrace is empty")
	}
}

// Rows that are closed while the database is closed: its interrupt must not meet a connection that is gone.
func TestCloseWhileRowsClose(t *testing.T) {
	for range 40 {
		db := open(t, Options{})
		rows, err := db.Query(t.Context(), "SELECT * FROM range(100000000)")
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() { _ = rows.Close() })
		both.Go(func() { _ = db.Close() })
		both.Wait()
	}
}
