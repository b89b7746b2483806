package store

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/model"
)

func TestReadingStatementsRun(t *testing.T) {
	db := open(t, Options{})
	fillTrace(t, db, 1000, 1000, -1)
	for _, sql := range []string{
		"SELECT 1", "  select 1 ;  ", "SELECT 1; -- the end", "/* a */ -- b\nSELECT 1;;", "FROM python.torch_trace",
		"TABLE python.steps",
		"VALUES (1), (2)", "WITH x AS (SELECT 1 AS a) SELECT a FROM x", "(SELECT 1)", "SHOW TABLES", "SHOW ALL TABLES",
		"DESCRIBE python.torch_trace", "DESCRIBE SELECT 1", "SUMMARIZE python.torch_trace", "EXPLAIN SELECT 1",
		"EXPLAIN ANALYZE SELECT count(*) FROM python.torch_trace", "SELECT ';' AS \";\"",
		"SELECT * FROM memgauge.drops",
		"SELECT 1 UNION SELECT 2", "PIVOT (SELECT 1 AS a, 2 AS b) ON a IN (1) USING sum(b)",
	} {
		if _, err := tryAsk(context.Background(), db, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestWritingStatementsAreRefusedByName(t *testing.T) {
	db := open(t, Options{})
	fillTrace(t, db, 1000, 1000, -1)
	before := fmt.Sprint(ask(t, db, "SELECT count(*), sum(step) FROM store.trace"))
	for sql, name := range map[string]string{
		"INSERT INTO store.names VALUES (1, 'x')":                           "INSERT",
		"insert into python.steps values (1)":                               "INSERT",
		"WITH x AS (SELECT 5, 'x') INSERT INTO store.names SELECT * FROM x": "INSERT",
		"/* SELECT */ UPDATE store.trace SET step = 0":                      "UPDATE",
		"DELETE FROM store.trace":                                           "DELETE",
		"TRUNCATE store.trace":                                              "TRUNCATE",
		"DROP TABLE store.trace":                                            "DROP",
		"DROP VIEW python.nonesuch":                                         "DROP",
		"CREATE TABLE x (a int)":                                            "CREATE",
		"CREATE TEMP TABLE x AS SELECT 1":                                   "CREATE",
		"CREATE OR REPLACE VIEW python.steps AS SELECT 1":                   "CREATE",
		"ALTER TABLE store.trace ADD COLUMN x int":                          "ALTER",
		"COPY store.trace TO '/tmp/x.csv'":                                  "COPY",
		"COPY (SELECT 1) TO '/tmp/x.csv'":                                   "COPY",
		"EXPORT DATABASE '/tmp/x'":                                          "EXPORT",
		"ATTACH '/tmp/x.duckdb'":                                            "ATTACH",
		"DETACH session":                                                    "DETACH",
		"INSTALL httpfs":                                                    "INSTALL",
		"LOAD httpfs":                                                       "LOAD",
		"SET memory_limit = '100GB'":                                        "SET",
		"RESET memory_limit":                                                "RESET",
		"PRAGMA memory_limit = '100GB'":                                     "PRAGMA",
		"CALL pragma_version()":                                             "CALL",
		"CHECKPOINT":                                                        "CHECKPOINT",
		"VACUUM":                                                            "VACUUM",
		"BEGIN":                                                             "BEGIN",
		"COMMIT":                                                            "COMMIT",
		"ROLLBACK":                                                          "ROLLBACK",
		"PREPARE p AS SELECT 1":                                             "PREPARE",
		"EXECUTE p":                                                         "EXECUTE",
		"USE python":                                                        "USE",
		"EXPLAIN ANALYZE DELETE FROM store.trace":                           "DELETE",
		"EXPLAIN ANALYZE INSERT INTO store.names VALUES (1, 'x')": "INSERT",
	} {
		_, err := tryAsk(context.Background(), db, sql)
		if !errors.Is(err, ErrRefused) || !strings.HasPrefix(err.Error(), name+" statements are not run") {
			t.Errorf("%s: error %v, want the refusal of %s", sql, err, name)
		}
	}
	for _, sql := range []string{"SELECT 1; SELECT 2", "SELECT 1; DROP TABLE store.trace",
		"DROP TABLE store.trace; SELECT 1"} {
		if _, err := tryAsk(context.Background(), db, sql); !errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), "several") {
			t.Errorf("%s: error %v", sql, err)
		}
	}
	if after := fmt.Sprint(ask(t, db, "SELECT count(*), sum(step) FROM store.trace")); after != before {
		t.Errorf("rows changed: %s before, %s after", before, after)
	}
}

// A question reads no file, writes none, and changes no setting, by whatever function.
func TestQueriesAreShutIn(t *testing.T) {
	db := open(t, Options{})
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret.csv")
	if err := os.WriteFile(secret, []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "log")
	for _, sql := range []string{
		"SELECT * FROM read_csv('" + secret + "')", "SELECT * FROM '" + secret + "'",
		"FROM read_text('" + secret + "')",
		"FROM read_blob('" + secret + "')", "FROM glob('" + dir + "/*')", "FROM read_json('" + secret + "')",
		"FROM read_parquet('" + secret + "')", "FROM parquet_metadata('" + secret + "')",
		"FROM sniff_csv('" + secret + "')",
		"FROM query('COPY (SELECT 1) TO ''" + target + "''')",
		"SELECT * FROM enable_logging(storage := 'file', storage_path := '" + target + "')",
		"FROM read_duckdb('" + db.o.Path + "')", "FROM read_csv('http://localhost:1/x.csv')",
		"FROM force_checkpoint()", "FROM checkpoint()",
	} {
		if rows, err := tryAsk(context.Background(), db, sql); err == nil {
			t.Errorf("%s ran: %v", sql, rows)
		}
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("a question wrote a file")
	}
	_, err := tryAsk(context.Background(), db, "SELECT * FROM read_csv('/etc/passwd')")
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "read_csv") &&
		!strings.Contains(err.Error(), "/etc/passwd") {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func TestErrorsAreClear(t *testing.T) {
	db := open(t, Options{})
	for sql, want := range map[string]string{
		"":                                   "there is no statement",
		" -- nothing":                        "there is no statement",
		"SELEC 1":                            `syntax error at or near "SELEC"`,
		"SELECT nope FROM python.steps":      `"nope"`,
		"SELECT * FROM gpu.utilisation":      "no such table: gpu.utilisation",
		"SELECT * FROM python.variables":     "no such table: python.variables",
		"SELECT * FROM sequences":            "no such table: sequences",
		"SELECT $1":                          "parameters",
		"SELECT 'a\x00b'":                    "NUL",
		"SELECT CAST('x' AS INTEGER)":        "Could not convert string 'x'",
		"SELECT error('told by the user')":   "told by the user",
		"SELECT sum(step) FROM store.steps)": "syntax error",
	} {
		_, err := tryAsk(context.Background(), db, sql)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to contain %q", sql, err, want)
		}
	}
}

// TestTableHints: what is suggested is a table that users ask, never one of DuckDB's own.
func TestTableHints(t *testing.T) {
	db := open(t, Options{})
	for name, want := range map[string]string{"steps": "python.steps", "python.step": "python.steps",
		"process.memmory": "process.memory", "torchtrace": "python.torch_trace",
		"sequences": "", "python.sequences": "", "pg_sequence": "", "tables": "", "q": "", "store.trac": "",
		strings.Repeat("steps", 1000): ""} {
		_, err := tryAsk(context.Background(), db, "SELECT * FROM "+name)
		hint := fmt.Sprint(remedy.Of(err))
		if want == "" && strings.Contains(hint, "did you mean") || !strings.Contains(hint, want) {
			t.Errorf("%.40s: hint %q, want %q (%v)", name, hint, want, err)
		}
	}
}

func TestValuesComeWithoutLoss(t *testing.T) {
	db := open(t, Options{})
	big1, _ := new(big.Int).SetString("170141183460469231731687303715884105727", 10)
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	for sql, want := range map[string]any{
		"NULL": nil, "true": true, "(-128)::TINYINT": int64(-128), "(-5)::SMALLINT": int64(-5), "7": int64(7),
		"255::UTINYINT":    uint64(255),
		"65535::USMALLINT": uint64(65535), "4294967295::UINTEGER": uint64(4294967295),
		"9223372036854775807":                              int64(9223372036854775807),
		"18446744073709551615::UBIGINT":                    uint64(18446744073709551615),
		"170141183460469231731687303715884105727::HUGEINT": big1,
		"(-1)::HUGEINT":                                    big.NewInt(-1),
		"'340282366920938463463374607431768211455'::UHUGEINT": new(big.Int).Add(new(big.Int).Lsh(big1, 1),
			big.NewInt(1)),
		"1.25::FLOAT": float32(1.25), "0.1::DOUBLE": 0.1, "1.50": model.Decimal{Unscaled: big.NewInt(150), Scale: 2},
		"-0.001::DECIMAL(38,3)":  model.Decimal{Unscaled: big.NewInt(-1), Scale: 3},
		"'é' || repeat('x', 20)": "é" + strings.Repeat("x", 20),
		"'twelve bytes'":         "twelve bytes", "''": "", "'\\x00\\xFF'::BLOB": []byte{0, 255},
		"DATE '2024-02-29'":                            day,
		"TIMESTAMP '2024-02-29 00:00:00.000001'":       day.Add(time.Microsecond),
		"TIMESTAMP '1969-12-31 23:59:59.5'":            time.Unix(-1, 5e8).UTC(),
		"TIMESTAMP_NS '2024-02-29 00:00:00.000000001'": day.Add(1), "'2024-02-29'::TIMESTAMP_S": day,
		"'2024-02-29'::TIMESTAMP_MS":           day,
		"TIMESTAMPTZ '2024-02-29 02:00:00+02'": day, "'infinity'::TIMESTAMP": "infinity",
		"'-infinity'::DATE": "-infinity",
		"TIME '01:02:03.5'": "01:02:03.5", "'01:02:03+05:30'::TIMETZ": "01:02:03+05:30",
		"INTERVAL '14 months 3 days 4.5 seconds'": "1 year 2 months 3 days 00:00:04.5",
		"INTERVAL '-90 minutes'":                  "-01:30:00", "INTERVAL 0 SECONDS": "00:00:00",
		"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "'0101'::BIT": "0101",
		"'b'::ENUM('a','b')": "b", "[1, NULL, 3]": model.List{int64(1), nil, int64(3)}, "[]::INTEGER[]": model.List{},
		"[[1], [2, 3]]":      model.List{model.List{int64(1)}, model.List{int64(2), int64(3)}},
		"[1, 2]::INTEGER[2]": model.List{int64(1), int64(2)},
		"{'b': 1, 'a': 'x'}": model.Struct{{Name: "b", Value: int64(1)}, {Name: "a", Value: "x"}},
		"MAP {'k': [1]}":     model.Map{{Key: "k", Value: model.List{int64(1)}}}, "union_value(num := 2)": int64(2),
		"'{\"a\": 1}'::JSON": "{\"a\": 1}", "'-123456789012345678901234567890123456789012'::BIGNUM": bigNumber(
			"-123456789012345678901234567890123456789012"),
	} {
		if got := ask(t, db, "SELECT "+sql)[0][0]; fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", want, want) {
			t.Errorf("SELECT %s is %T %v, want %T %v", sql, got, got, want, want)
		}
		// The same in the second place of a vector, beside a NULL.
		if got := ask(t, db, "SELECT v FROM (SELECT 1 AS k, NULL AS v UNION ALL SELECT 2, "+sql+
			") ORDER BY k")[1][0]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("beside a NULL, %s is %v, want %v", sql, got, want)
		}
	}
}

func bigNumber(s string) *big.Int {
	n, _ := new(big.Int).SetString(s, 10)
	return n
}

func TestColumnTypes(t *testing.T) {
	db := open(t, Options{})
	r, err := db.Query(context.Background(),
		"SELECT 1 AS a, 1.5 AS b, [{'x': 1::UBIGINT}] AS c, MAP {'a': 1} AS d, ts FROM python.steps")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := "[{a INTEGER} {b DECIMAL(2,1)} {c STRUCT(x UBIGINT)[]} {d MAP(VARCHAR, INTEGER)} {ts TIMESTAMP}]"
	if got := fmt.Sprint(r.Columns()); got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
}

const endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 8"

func TestContextEndsAQuery(t *testing.T) {
	db := open(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := tryAsk(ctx, db, endless)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline's", err)
	}
	if d := time.Since(start); d > time.Minute { // it would take days
		t.Errorf("it took %v", d)
	}
	// Between two rows, too.
	ctx, stop := context.WithCancel(context.Background())
	r, err := db.Query(ctx, "SELECT * FROM range(100000000)")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.Next() {
		t.Fatal(r.Err())
	}
	stop()
	for r.Next() {
	}
	if !errors.Is(r.Err(), context.Canceled) {
		t.Errorf("error %v, want the cancellation's", r.Err())
	}
}

func TestCloseEndsQueries(t *testing.T) {
	db := open(t, Options{})
	idle, err := db.Query(context.Background(), "SELECT * FROM range(100000000)")
	if err != nil {
		t.Fatal(err)
	}
	busy := make(chan error)
	go func() {
		_, err := tryAsk(context.Background(), db, endless)
		busy <- err
	}()
	for { // until the second question is registered
		idle.e.mu.Lock()
		n := len(idle.e.mu.rows)
		idle.e.mu.Unlock()
		if n == 2 {
			break
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-busy; err == nil {
		t.Error("the running question gave an answer")
	}
	for idle.Next() {
	}
	if !errors.Is(idle.Err(), errClosed) {
		t.Errorf("error %v, want %v", idle.Err(), errClosed)
	}
	if _, err := db.Query(context.Background(), "SELECT 1"); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// A big answer is read as it is made, in little memory.
func TestAnswersAreStreamed(t *testing.T) {
	db := open(t, Options{MemoryLimit: 64 << 20})
	r, err := db.Query(context.Background(),
		"SELECT range, 'some text that is not short ' || range FROM range(5000000)")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for r.Next() {
		n++
	}
	if r.Err() != nil || n != 5000000 {
		t.Errorf("%d rows, %v", n, r.Err())
	}
}

func TestMemoryLimitIsTold(t *testing.T) {
	db := open(t, Options{MemoryLimit: 16 << 20})
	_, err := tryAsk(context.Background(), db, "SELECT list(range) FROM range(100000000)")
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "memory") {
		t.Errorf("error %v, want one about memory", err)
	}
	if _, err := tryAsk(context.Background(), db, "SELECT 1"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestQueryWhileAppending(t *testing.T) {
	db := open(t, Options{})
	add(t, db, &model.Batch{Names: moduleNames()})
	done := make(chan error)
	go func() {
		var err error
		for i := int64(0); i < 100 && err == nil; i++ {
			b := model.Batch{Cursors: []model.Cursor{{RingID: 1, Seq: uint64(i)}}}
			for j := range int64(1000) {
				b.Trace = append(b.Trace, traceRow(i*1000+j, 0))
			}
			err = db.Append(context.Background(), &b)
		}
		done <- err
	}()
	last := int64(0)
	for {
		n := countTrace(t, db)
		if n < last || n%1000 != 0 {
			t.Fatalf("saw %d rows after %d: a batch was seen in part", n, last)
		}
		last = n
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			if n := countTrace(t, db); n != 100_000 {
				t.Errorf("%d rows", n)
			}
			return
		default:
		}
	}
}
