package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/formats/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fixed is a result in memory.
type fixed struct {
	columns []model.Column
	rows    [][]any
	at      int
	err     error
}

func (f *fixed) Columns() []model.Column { return f.columns }
func (f *fixed) Next() bool              { f.at++; return f.at <= len(f.rows) }
func (f *fixed) Values() []any           { return f.rows[f.at-1] }
func (f *fixed) Err() error              { return f.err }

func render(t *testing.T, rows Rows, f Format, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, rows, f, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func columns(spec ...string) (out []model.Column) {
	for _, s := range spec {
		name, typ, _ := strings.Cut(s, " ")
		out = append(out, model.Column{Name: name, Type: typ})
	}
	return out
}

// every is one of everything that a query can return.
func every() *fixed {
	huge, _ := new(big.Int).SetString("-170141183460469231731687303715884105728", 10)
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	c := columns("b BOOLEAN", "i BIGINT", "u UBIGINT", "h HUGEINT", "dec DECIMAL(18,3)", "d DOUBLE", "f FLOAT",
		"s VARCHAR",
		"ts TIMESTAMP", "day DATE", "blob BLOB", "list INTEGER[]", "st STRUCT(z", "m MAP(INTEGER, VARCHAR)")
	return &fixed{columns: c, rows: [][]any{
		{true, int64(math.MaxInt64), uint64(math.MaxUint64), huge, model.Decimal{Unscaled: big.NewInt(-5), Scale: 3},
			0.1, float32(0.1), "NULL",
			at, at, []byte("a\x00\\"), model.List{int64(1), nil}, model.Struct{{Name: "z", Value: int64(1)},
				{Name: "a", Value: "x"}},
			model.Map{{Key: int64(2), Value: nil}}},
		{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil},
		{false, int64(math.MinInt64), uint64(0), big.NewInt(0), model.Decimal{Unscaled: big.NewInt(12345), Scale: 3},
			math.NaN(), float32(math.Inf(-1)),
			"", at.Add(7), at, []byte{}, model.List{}, model.Struct{}, model.Map{}},
		{false, int64(0), uint64(1), big.NewInt(1), model.Decimal{Unscaled: new(big.Int)}, 1e300, float32(1),
			"層.0 é \x1b[31m\nx,\"y\"\xff\u202e",
			at, at, []byte("plain"), model.List{1.5, math.Inf(1)}, model.Struct{{Name: "q\"", Value: model.List{}}},
			model.Map{{Key: true, Value: 2.0}}},
	}}
}

// trace looks like the result that people see most.
func trace() *fixed {
	return &fixed{columns: columns("step BIGINT", "module VARCHAR", "stage VARCHAR", "device VARCHAR",
		"duration DOUBLE", "allocated DOUBLE", "site VARCHAR"),
		rows: [][]any{
			{int64(1), "transformer.encoder.layers.11.self_attn.out_proj", "pre forward", "cuda:0", nil,
				1234.5678901234, "train.py:48"},
			{int64(12345), "層.モジュール", "post forward", "cuda:0", 3.4e-7, 0.1,
				"/data/project/models/blocks/attention/flash.py:1204"},
			{int64(2), "e\u0301clair", "NULL", nil, 2.0, math.NaN(), nil},
		}}
}

func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		rows Rows
		f    Format
		o    Options
	}{
		"every.csv":     {every(), CSV, Options{}},
		"every.json":    {every(), JSON, Options{}},
		"every.ndjson":  {every(), NDJSON, Options{}},
		"every.table":   {every(), Table, Options{}},
		"trace.table":   {trace(), Table, Options{}},
		"trace.120.tty": {trace(), Table, Options{Width: 120}},
		"trace.80.tty":  {trace(), Table, Options{Width: 80}},
		"trace.40.tty":  {trace(), Table, Options{Width: 40, Plain: true}},
		"spare.60.tty": {trace(), Table, Options{Width: 60, Plain: true, NoRows: true,
			Spare: []string{"step", "site", "absent", "device", "stage"}, Whole: "see --json"}},
		"plan.table": {&fixed{columns: columns("explain_key VARCHAR", "explain_value VARCHAR"),
			rows: [][]any{{"physical_plan", "┌───┐\n│ a\x1b │\n└───┘\n"}}}, Table, Options{}},
		"dates.csv": {&fixed{columns: columns("days DATE[]", "grid DATE[3][]"),
			rows: [][]any{{model.List{time.Unix(0, 0)}, model.List{model.List{time.Unix(0, 0), nil}}}}}, CSV,
			Options{}},
		"empty.table":  {&fixed{columns: columns("a BIGINT", "b VARCHAR")}, Table, Options{}},
		"empty.json":   {&fixed{columns: columns("a BIGINT")}, JSON, Options{}},
		"empty.ndjson": {&fixed{columns: columns("a BIGINT")}, NDJSON, Options{}},
		"empty.csv":    {&fixed{columns: columns("a,b BIGINT", "c BIGINT")}, CSV, Options{}},
		"duplicate.json": {&fixed{columns: columns("a INTEGER", "a INTEGER", "a_1 INTEGER", "a INTEGER"),
			rows: [][]any{{int64(1), int64(2), int64(3), int64(4)}}}, JSON, Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := render(t, c.rows, c.f, c.o)
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestFloatText(t *testing.T) {
	for in, want := range map[float64]string{
		1.5: "1.5", .1: "0.1", 1e300: "1e+300", 2: "2.0", 0: "0.0", 1e-5: "0.00001", 9e-6: "9e-06",
		1e16: "10000000000000000.0", 1e17: "1e+17",
		math.Copysign(0, -1): "-0.0", 5e-324: "5e-324", math.MaxFloat64: "1.7976931348623157e+308",
	} {
		if got := floatText(in, 64); got != want {
			t.Errorf("%g: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[float64]string{
		1234.5678901234: "1234.56789", 3.4e-7: "3.4e-07", 1.0 / 3: "0.333333", 1.23456789e-4: "0.000123457", 2: "2.0",
		.9999999: "1.0", 1e300: "1e+300",
	} {
		if got := roundedText(in, 64); got != want {
			t.Errorf("%g rounded: %s, want %s", in, got, want)
		}
	}
}

// In a terminal no line is wider than the terminal, as long as it has room for one number and one short text.
func TestFitsEveryWidth(t *testing.T) {
	for width := 30; width < 200; width++ {
		for _, line := range strings.Split(render(t, trace(), Table, Options{Width: width, Plain: true}), "\n") {
			if got := textWidth(line); got > width {
				t.Fatalf("terminal of %d: a line of %d: %s", width, got, line)
			}
		}
	}
}

func TestTableKeepsGoing(t *testing.T) {
	rows := &fixed{columns: columns("n BIGINT", "s VARCHAR")}
	for i := range measuredRows + 5 {
		rows.rows = append(rows.rows, []any{int64(i), "x"})
	}
	late := strings.Repeat("y", 300)
	rows.rows[measuredRows+2][1] = late
	piped := render(t, rows, Table, Options{})
	if !strings.Contains(piped, late) || !strings.HasSuffix(piped, "(10,005 rows)\n") {
		t.Errorf("end: %q", piped[len(piped)-200:])
	}
	rows.at = 0
	if tty := render(t, rows, Table, Options{Width: 80}); strings.Contains(tty, "yy") {
		t.Error("a late wide value leaves its column in a terminal")
	}
}

// One huge name must not make every other line as long.
func TestPaddingIsBounded(t *testing.T) {
	rows := &fixed{columns: columns("s VARCHAR", "n BIGINT"), rows: [][]any{{strings.Repeat("z", 100_000), int64(1)}}}
	for range 1000 {
		rows.rows = append(rows.rows, []any{"a", int64(1)})
	}
	if got := len(render(t, rows, Table, Options{})); got > 100_000+1002*(widestColumn+20) {
		t.Errorf("%d bytes", got)
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestErrorsComeBack(t *testing.T) {
	sad := errors.New("no space left on device")
	for _, f := range []Format{Table, JSON, NDJSON, CSV} {
		if err := Write(&bytes.Buffer{}, &fixed{columns: columns("a BIGINT"), err: sad}, f, Options{}); !errors.Is(err,
			sad) {
			t.Errorf("%s: the rows' error became %v", f, err)
		}
		if err := Write(brokenWriter{sad}, trace(), f, Options{}); !errors.Is(err, sad) {
			t.Errorf("%s: the writer's error became %v", f, err)
		}
	}
	if err := Write(&bytes.Buffer{}, trace(), Parquet, Options{}); err == nil {
		t.Error("parquet is not text")
	}
}

func TestFormats(t *testing.T) {
	if f, err := ParseFormat("JSON"); err != nil || f != JSON {
		t.Error(f, err)
	}
	if f, err := ParseFormat(""); err != nil || f != Table {
		t.Error(f, err)
	}
	if _, err := ParseFormat("xml"); err == nil {
		t.Error("xml is not a format")
	}
	if f, ok := FormatOf("a/b.JSONL"); !ok || f != NDJSON {
		t.Error(f, ok)
	}
	if _, ok := FormatOf("b.json/a"); ok {
		t.Error("the directory's ending counts for nothing")
	}
}

// Any values come back: csv and json are read by the standard library, a table has no control character.
func FuzzWrite(f *testing.F) {
	f.Add("a", "", int64(1), 1.5, []byte("x"), uint8(0), uint8(80))
	f.Add("na,me\n", "\x1b]0;title\x07\r\n\"\xff", int64(math.MinInt64), math.Inf(-1), []byte{0, 0xff}, uint8(3),
		uint8(1))
	f.Add("", "👩‍👩‍👧 e\u0301 層", int64(0), 5e-324, []byte(nil), uint8(255), uint8(20))
	f.Fuzz(func(t *testing.T, name, s string, i int64, x float64, b []byte, nulls, width uint8) {
		c := []model.Column{{Name: name, Type: "VARCHAR"}, {Name: "i", Type: "BIGINT"}, {Name: "x", Type: "DOUBLE"},
			{Name: "b", Type: "BLOB"}, {Name: "l", Type: "VARCHAR[]"}}
		row := []any{s, i, x, b, model.List{s, model.Struct{{Name: name, Value: s}}, model.Map{{Key: x, Value: nil}}}}
		for k := range row {
			if nulls>>k&1 == 1 {
				row[k] = nil
			}
		}
		of := func() Rows { return &fixed{columns: c, rows: [][]any{row, row}} }
		checkCSV(t, render(t, of(), CSV, Options{}), c, row)
		checkJSON(t, render(t, of(), JSON, Options{}), row)
		for _, o := range []Options{{}, {Width: int(width), Plain: true}} {
			out := render(t, of(), Table, o)
			if strings.ContainsFunc(strings.ReplaceAll(out, "\n", ""), plain.Steers) || strings.Count(out, "\n") < 4 {
				t.Errorf("table: %q", out)
			}
		}
	})
}

func checkCSV(t *testing.T, text string, c []model.Column, row []any) {
	r := csv.NewReader(strings.NewReader(text))
	records, err := r.ReadAll()
	if err != nil || len(records) != 3 {
		t.Fatalf("csv: %d records, %v: %q", len(records), err, text)
	}
	for k, v := range row {
		want := ""
		switch {
		case v == nil:
		case isNested(v):
			want = string(appendJSON(nil, v, ""))
		default:
			want = scalarText(v, c[k].Type)
		}
		want = strings.ReplaceAll(want, "\r\n", "\n") // encoding/csv does so within quotes
		if records[2][k] != want {
			t.Errorf("csv field %d: %q, want %q", k, records[2][k], want)
		}
	}
}

func checkJSON(t *testing.T, text string, row []any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var objects []map[string]any
	if err := d.Decode(&objects); err != nil || len(objects) != 2 || len(objects[0]) != len(row) {
		t.Fatalf("json: %v: %q", err, text)
	}
	if row[1] == nil {
		return
	}
	for key, v := range objects[0] {
		if n, ok := v.(json.Number); ok && strings.HasPrefix(key, "i") && n.String() == scalarText(row[1], "BIGINT") {
			return
		}
	}
	t.Errorf("json: %v isn't in %q", row[1], text)
}
