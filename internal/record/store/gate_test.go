package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// victim is a session's directory as a collector has it, with a ring that a trainer would have mapped.
type victim struct {
	dir, ring string
	db        *DB
	files     string // what the directory held
}

func newVictim(t testing.TB) *victim {
	t.Helper()
	v := &victim{dir: t.TempDir()}
	v.ring = filepath.Join(v.dir, "rings", "1.2.0.ring")
	if err := os.Mkdir(filepath.Dir(v.ring), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{v.ring: strings.Repeat("ring", 1024),
		filepath.Join(v.dir, "session.json"): `{"secret": 1}`,
		filepath.Join(v.dir, "a.csv"):        "a,b\n1,2\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v.db = open(t, Options{Path: filepath.Join(v.dir, "session.duckdb"), MemoryLimit: 64 << 20})
	fillTrace(t, v.db, 1000, 1000, -1)
	if err := v.db.Checkpoint(context.Background()); err != nil {
		t.Fatal(err)
	}
	v.files = v.list(t)
	return v
}

// list names the files and shows what matters of them; DuckDB's own change as it likes.
func (v *victim) list(t testing.TB) string {
	t.Helper()
	var out bytes.Buffer
	err := filepath.WalkDir(v.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(path, v.db.o.TempDir) || strings.HasPrefix(d.Name(), "session.duckdb") {
			return err
		}
		fmt.Fprint(&out, path, " ")
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			fmt.Fprintf(&out, "%x %v", text, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func (v *victim) state(t testing.TB) string {
	return v.list(t) + fmt.Sprint(ask(t, v.db, catalogState))
}

const catalogState = `SELECT (SELECT count(*) FROM store.trace), (SELECT sum(step) FROM store.trace), (SELECT count(*) FROM store.names), count(*),
	md5(string_agg(sql, '' ORDER BY sql)) FROM sqlite_master`

// hostile are statements that write, read files, change settings or do harm to the process. $RING, $DIR and $TMP are a
// mapped ring, the session's directory and the engine's.
var hostile = []string{
	"SELECT json_serialize_plan('EXPORT DATABASE ''$TMP/x''')",
	"SELECT json_serialize_plan('COPY (SELECT 1) TO ''$TMP/x''')",
	"SELECT (SELECT json_serialize_plan('EXPORT DATABASE ''$TMP/x''', optimize := true))",
	"EXPLAIN SELECT json_serialize_plan('EXPORT DATABASE ''$TMP/x''')",
	"FROM json_each(json_serialize_plan('EXPORT DATABASE ''$TMP/x'''))", "SELECT json_deserialize_sql('{}')",
	"FROM sql_auto_complete('FROM ''$DIR/')", "FROM histogram('$DIR/a.csv', a)",
	"FROM histogram_values('$DIR/a.csv', a)",
	"FROM check_peg_parser('SELECT 1')", "FROM enable_peg_parser()", "FROM duckdb_extensions()",
	"FROM duckdb_external_file_cache()", "FROM pg_prepared_statements", "SELECT setseed(0.5)", "SELECT pg_sleep(9)",
	"SELECT nextval('x')", "SELECT a_function_of_a_later_duckdb(1)", "FROM a_function_of_a_later_duckdb(1)",
	"COPY (SELECT 1) TO '$RING'", "EXPLAIN ANALYZE COPY (SELECT 1) TO '$RING'",
	"EXPLAIN/**/ANALYZE/**/COPY (SELECT 1) TO '$RING'",
	"explain analyze copy (select 1) to '$RING' (format csv)", "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '$RING'",
	"EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '$RING'",
	"/* SELECT */ EXPLAIN -- SELECT\n ANALYZE COPY (SELECT 1) TO '$DIR/session.json'",
	"EXPLAIN ANALYZE EXPLAIN ANALYZE COPY (SELECT 1) TO '$RING'", "EXPLAIN ANALYZE VERBOSE COPY (SELECT 1) TO '$RING'",
	"EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1", "EXPLAIN ANALYZE DELETE FROM store.trace",
	"EXPLAIN ANALYZE CHECKPOINT", "EXPLAIN ANALYZE CALL force_checkpoint()",
	"EXPLAIN ANALYZE COPY (SELECT 1) TO '$TMP/x.csv'", "COPY (SELECT 1) TO '$DIR/session.duckdb.wal'",
	"COPY store.trace FROM '$DIR/a.csv'",
	"EXPLAIN ANALYZE EXPORT DATABASE '$TMP'", "EXPORT DATABASE '$TMP'", "IMPORT DATABASE '$DIR'",
	"EXPLAIN ANALYZE SET threads = 1",
	"\u00a0EXPLAIN ANALYZE COPY (SELECT 1) TO '$RING'", "EXPLAIN\u00a0ANALYZE COPY (SELECT 1) TO '$RING'",
	"/* /* */ EXPLAIN ANALYZE COPY (SELECT 1) TO '$RING'",
	"EXPLAIN ANALYZE SELECT 1; COPY (SELECT 1) TO '$RING'", "SELECT 1; COPY (SELECT 1) TO '$RING'",
	"WITH x AS (SELECT 1) COPY x TO '$RING'",
	"FROM enable_logging/**/(storage := 'file', storage_path := '$TMP')",
	"FROM enable_logging(storage := 'file', storage_config := {'path': '$DIR'})",
	`FROM "enable_logging"(storage := 'file', storage_path := '$DIR')`, "FROM system.main.enable_logging('x')",
	"CALL enable_logging('QueryLog')",
	"EXPLAIN ANALYZE CALL enable_logging('QueryLog')", "EXPLAIN ANALYZE SELECT * FROM enable_logging('QueryLog')",
	"FROM truncate_duckdb_logs()",
	"FROM query('SELECT * FROM enable_logging(storage := ''file'', storage_path := ''$DIR'')')",
	"FROM query('COPY (SELECT 1) TO ''$RING''')",
	"FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''$RING'')'))",
	"PRAGMA json_execute_serialized_sql('x')",
	"FROM force_checkpoint()", "FROM checkpoint()", "FROM checkpoint/* */()",
	"SELECT (SELECT max(x) FROM checkpoint() t(x))", "PRAGMA force_checkpoint",
	"FROM read_text('$DIR/session.json')", "FROM read_text('$DIR/session.duckdb')", "FROM read_blob('$RING')",
	"FROM read_csv('$DIR/a.csv')", "FROM '$DIR/a.csv'",
	"FROM read_duckdb('$DIR/session.duckdb')", "SELECT * FROM (SELECT 1) x, LATERAL read_text('$DIR/session.json')",
	"FROM glob('$DIR/*')", "FROM GLOB('$DIR/*')",
	"FROM sniff_csv('$DIR/a.csv')", "FROM parquet_metadata('$DIR/a.csv')", "FROM parquet_kv_metadata('$DIR/a.csv')",
	"DESCRIBE '$DIR/a.csv'",
	"DESCRIBE FROM read_csv('$DIR/a.csv')", "SUMMARIZE '$DIR/a.csv'", "SUMMARIZE FROM read_csv('$DIR/a.csv')",
	"FROM query_table('$DIR/a.csv')",
	"WITH a AS (FROM read_text('$DIR/session.json')) SELECT * FROM a",
	"SELECT 1 WHERE EXISTS (FROM read_text('$DIR/session.json'))",
	"PIVOT (FROM read_csv('$DIR/a.csv')) ON a IN (1) USING sum(b)", "FROM duckdb_logs()", "FROM duckdb_logs",
	"FROM duckdb_logs_parsed('QueryLog')",
	"FROM arrow_scan(1, 2, 3)", "FROM seq_scan()", "FROM duckdb_secrets()", "FROM which_secret('s3://x', 's3')",
	"SELECT getenv('HOME')", "SELECT write_log('x')",
	"ATTACH '$DIR/x.duckdb'", "ATTACH ':memory:' AS x", "DETACH session", "INSTALL httpfs", "LOAD '$DIR/x'",
	"SET enable_external_access = true",
	"SET temp_directory = '$DIR'", "SET allowed_directories = ['/']", "RESET temp_directory", "SET VARIABLE a = 1",
	"PRAGMA temp_directory = '$DIR'",
	"PRAGMA enable_profiling = 'json'", "PRAGMA profiling_output = '$RING'", "PRAGMA import_database('$DIR')",
	"PRAGMA copy_database('a', 'b')",
	"CHECKPOINT", "FORCE CHECKPOINT", "VACUUM", "ANALYZE", "CREATE SECRET (TYPE s3)", "CREATE TEMP TABLE x AS SELECT 1",
	"CREATE MACRO m() AS TABLE FROM read_text('$RING')",
	"PREPARE p AS SELECT 1", "EXECUTE p", "BEGIN", "COMMIT", "CREATE TYPE e AS ENUM (SELECT 'a')",
	"COMMENT ON TABLE store.trace IS 'x'", "UPDATE store.trace SET step = 0",
	"MERGE INTO store.names USING store.names n ON false WHEN MATCHED THEN DELETE",
	"EXPLAIN ANALYZE MERGE INTO store.names USING store.names n ON false WHEN MATCHED THEN DELETE",
}

func (v *victim) fill(sql string) string {
	return strings.NewReplacer("$RING", v.ring, "$DIR", v.dir, "$TMP", v.db.o.TempDir).Replace(sql)
}

// No statement gets through that writes or reads a file, whatever dress it wears: what is on disk and in the tables
// stays as it was.
func TestHostileSQL(t *testing.T) {
	v := newVictim(t)
	before := v.state(t)
	for _, sql := range hostile {
		sql = v.fill(sql)
		rows, err := tryAsk(context.Background(), v.db, sql)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s ran: %v %v", sql, rows, err)
		}
		if err := v.db.ExportTo(context.Background(), sql, &bytes.Buffer{}); err == nil {
			t.Errorf("%s was exported", sql)
		}
	}
	if after := v.state(t); after != before {
		t.Errorf("the session was\n%s\nand is\n%s", before, after)
	}
	if left, err := os.ReadDir(v.db.o.TempDir); err != nil || len(left) > 0 {
		t.Errorf("the engine's directory has %v, %v", left, err)
	}
}

// What looks like it, and only reads the tables, runs.
func TestHarmlessLookalikes(t *testing.T) {
	db := open(t, Options{})
	fillTrace(t, db, 10, 10, -1)
	for _, sql := range []string{
		"EXPLAIN (FORMAT json) SELECT 1", "EXPLAIN (ANALYZE, FORMAT json) SELECT 1", "EXPLAIN ANALYZE (SELECT 1)",
		"EXPLAIN (SELECT 1) UNION (SELECT 2)",
		"/* x */ EXPLAIN /* y */ ANALYZE -- z\n SELECT 'COPY'", "SELECT 'COPY (SELECT 1) TO ''x''', 1 AS \"read_text\"",
		"SELECT $$; DROP TABLE x$$",
		"FROM range(3)", "SELECT * FROM (SELECT [1, 2] AS l), unnest(l)", "SELECT * FROM json_each('[1, 2]')",
		"SELECT count(*) FROM duckdb_tables()",
		"FROM pragma_table_info('python.steps')", "SELECT count(*) FROM information_schema.tables",
		"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9) FROM t",
		"SELECT quantile_cont(step, [0.1, 0.5]) OVER () FROM python.torch_trace", "SHOW DATABASES",
		"SUMMARIZE SELECT 1",
		"SELECT * FROM python.steps ASOF JOIN memgauge.events USING (pid, ts)", "SELECT current_setting('threads')",
		"SELECT '{\"read_text\": 1}'::JSON ->> 'read_text'",
		"SELECT {'function_name': 'read_text', 'table_name': '/etc/passwd'}",
	} {
		for range 2 { // the second time from memory
			if _, err := tryAsk(context.Background(), db, sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	list := "SELECT 1 WHERE 1 IN (1" + strings.Repeat(", 2", 100_000) + ")"
	if _, err := tryAsk(context.Background(), db, list); err != nil {
		t.Errorf("a list of 100,000: %v", err)
	}
}

// The engine's directory is its own, begins empty, and goes with the database.
func TestEngineDirectory(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, engineDir+"left")
	if err := os.MkdirAll(filepath.Join(stale, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	db := open(t, Options{Path: filepath.Join(dir, "session.duckdb")})
	st, err := os.Stat(db.o.TempDir)
	if err != nil || st.Mode().Perm() != 0o700 || filepath.Dir(db.o.TempDir) != dir {
		t.Errorf("%s: %v, %v", db.o.TempDir, st, err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("what a killed engine left is still there")
	}
	second := open(t, Options{Path: filepath.Join(dir, "other.duckdb")})
	if _, err := os.Stat(db.o.TempDir); err != nil || second.o.TempDir == db.o.TempDir {
		t.Errorf("a second database took the directory of the first: %v", err)
	}
	got := ask(t, db, "SELECT unnest(current_setting('allowed_directories'))")
	if len(got) != 1 || strings.TrimSuffix(got[0][0].(string), "/") != db.o.TempDir {
		t.Errorf("allowed are %v", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(db.o.TempDir); err == nil {
		t.Error("the directory outlives the database")
	}
}

func FuzzGate(f *testing.F) {
	v := newVictim(f)
	for _, s := range hostile {
		f.Add(s)
	}
	for _, s := range []string{"SELECT 1", "FROM python.steps", "SELECT 1;;", "SELECT [1, {'a': 2}]", "select $$a$$",
		"(((", "'", "\"", "/*", "SELECT 1 -- \n;", "\x00", "é",
		"EXPLAIN (FORMAT json) SELECT 1", "PIVOT (SELECT 1 AS a) ON a", "SHOW ALL TABLES",
		"SELECT * FROM a.b, LATERAL (SELECT unnest([1]))", "SELECT list_transform([1], lambda x: x + 1)",
		"SELECT 'a'.upper() ->> 'b'", "SELECT (1).exp().ln()",
		"SELECT list_aggregate([1], 'sum'), TRY(1 // 0), x COLLATE de FROM (VALUES ('a')) t(x)",
		"SELECT sum(step) OVER (ORDER BY ts) FROM python.steps QUALIFY step > 1"} {
		f.Add(s)
	}
	before, files := v.state(f), watched(f, v.dir)
	oracle, err := v.db.connect() // past the gate
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(oracle.close)
	f.Fuzz(func(t *testing.T, sql string) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// so that what is found can be kept: the directory has another name each time
		sql = v.fill(sql)
		_, err := tryAsk(ctx, v.db, sql)
		if after := watched(t, v.dir); after != files {
			t.Fatalf("%q changed files (%v): %s before, %s after", sql, err, files, after)
		}
		if after := v.state(t); after != before {
			t.Fatalf("%q changed the session (%v): %s before, %s after", sql, err, before, after)
		}
		passesAsReading(t, oracle, sql)
	})
}

// passesAsReading fails when the gate lets a statement through that DuckDB takes for more than a reading one, or whose
// plan has a refused function.
func passesAsReading(t *testing.T, c *conn, sql string) {
	text, err := gate(c, sql)
	if err != nil {
		return
	}
	var stmt duck.PreparedStatement
	defer duck.DestroyPrepare(&stmt)
	if duck.Prepare(c.c, text, &stmt) == duck.StateError {
		return
	}
	switch kind := duck.PreparedStatementType(stmt); kind {
	case duck.StatementTypeSelect:
	case duck.StatementTypeExplain:
		return // the plan is that of what stands behind it, which the gate has read by itself
	default:
		t.Fatalf("%q passes as a statement of type %d", sql, kind)
	}
	if names, err := plannedFunctions(c, text); err == nil {
		if err := planned(names); err != nil {
			t.Fatalf("%q: %v", sql, err)
		}
	}
}
