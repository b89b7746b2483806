package lake

import (
	"bytes"
	commas "encoding/csv"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/record/store"
	"github.com/memgauge/memgauge/test/env"
	"github.com/memgauge/memgauge/test/frames"
)

// kinds are rows with a column of every type: of each some values, the least and the greatest among them, and of some
// no value, or no NULL. The texts fill several pages.
func kinds(h frame.Header) frame.Batch {
	fields := append(frames.Fields(h.Table)[:3], frame.Field{Name: "ts", Type: frame.Time},
		frame.Field{Name: "whole", Type: frame.Int64}, frame.Field{Name: "small", Type: frame.Int32},
		frame.Field{Name: "ratio", Type: frame.Float64}, frame.Field{Name: "odd", Type: frame.Bool},
		frame.Field{Name: "note", Type: frame.Text}, frame.Field{Name: "given", Type: frame.Bool},
		frame.Field{Name: "never", Type: frame.Text})
	return frame.Batch{Header: h, Rows: frames.Rows(fields, h.Count, func(f frame.Field, row int) any {
		switch {
		case f.Name == "job":
			return h.Job
		case f.Name == "node":
			return h.Node
		case f.Name == "given":
			return row%7 < 3
		case f.Name == "never" || (row+len(f.Name))%3 == 0:
			return nil
		}
		switch f.Type {
		case frame.Time:
			return began.Add(time.Duration(row) * time.Microsecond)
		case frame.Int64:
			return []int64{math.MinInt64, math.MaxInt64, int64(row)}[row%3]
		case frame.Int32:
			return []int32{math.MinInt32, math.MaxInt32, int32(row)}[row%3]
		case frame.Float64:
			return float64(2*row+1) / 16
		case frame.Bool:
			return row%5 == 0
		}
		return fmt.Sprint(row, strings.Repeat("ö", row%700))
	})}
}

// created is a new file, in a directory that is made for it.
func created(t testing.TB, path string) *os.File {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// written is a flushed file of two pieces, and what its rows are as text.
func written(t testing.TB) (path string, want []string) {
	t.Helper()
	h := stranger(1, 9000)
	b := kinds(h)
	one := piece{h.Job, h.Node + "/s", "s", 1, b.Rows.Slice(0, 4001)}
	other := piece{h.Job, h.Node + "/t", "t", 1 << 40, b.Rows.Slice(4001, 9000)}
	path = filepath.Join(t.TempDir(), "tier=r0", "x.parquet")
	f := created(t, path)
	defer f.Close()
	rows := ledger{}
	for _, p := range []piece{one, other} {
		rows.add(p.stream, p.span())
		for i := range p.rows.Len() {
			var line []string
			for k := range p.rows.Width() {
				line = append(line, frames.Text(p.rows.Column(k), i))
			}
			want = append(want, strings.Join(append(line, p.session, fmt.Sprint(p.first+uint64(i))), "|"))
		}
	}
	if err := writeParquet(f, []piece{one, other}, rows); err != nil {
		t.Fatal(err)
	}
	if got, err := rowsOf("x", f); err != nil || fmt.Sprint(got) != fmt.Sprint(rows) {
		t.Errorf("its ledger is %v, %v", got, err)
	}
	return path, want
}

// TestPyarrowReads: a reader that is none of ours finds every value and type in a flushed file, and what its footer
// says of them.
func TestPyarrowReads(t *testing.T) {
	python := env.Readers(t)
	path, want := written(t)
	script := `
import sys, pyarrow.parquet as pq
f = pq.ParquetFile(sys.argv[1])
print(*(f"{c.name}:{c.type}" for c in f.schema_arrow))
for k in range(f.metadata.num_columns):
    c = f.metadata.row_group(0).column(k)
    s = c.statistics
    values = f.read([c.path_in_schema]).column(0)
    assert s.null_count == values.null_count and c.num_values == len(values), c.path_in_schema
    kept = [v for v in values.to_pylist() if v is not None]
    if s.has_min_max:
        assert (s.min, s.max) == (min(kept), max(kept)), (c.path_in_schema, s.min, s.max)
def text(v):
    if v is None: return "NULL"
    if isinstance(v, bool): return str(v).lower()
    return str(v)
t = f.read()
t = t.set_column(t.schema.get_field_index("ts"), "ts", t.column("ts").cast("int64"))
for row in zip(*(c.to_pylist() for c in t.columns)):
    print("|".join(map(text, row)))
`
	cmd := exec.Command(python.Path, "-c", script, path)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errors.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if lines[0] != "job:string node:string rank:int32 ts:timestamp[us] whole:int64 small:int32 ratio:double odd:bool "+
		"note:string given:bool never:string _session:string _row:int64" {
		t.Errorf("columns %s", lines[0])
	}
	compareRows(t, lines[1:], want)
}

// TestDuckDBReads likewise, which merges them.
func TestDuckDBReads(t *testing.T) {
	path, want := written(t)
	columns := []store.FileColumn{{Name: sessionColumn, Type: "VARCHAR"}, {Name: rowColumn, Type: "BIGINT"}}
	for i, f := range kinds(stranger(1, 1)).Rows.Fields() {
		columns = slices.Insert(columns, i, store.FileColumn{Name: f.Name, Type: f.Type.String()})
	}
	view := store.FileView{Schema: "x", Name: "y", Files: []string{path}, Columns: columns}
	db, err := store.OpenFiles(t.Context(), filepath.Dir(path), []store.FileView{view},
		store.Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out bytes.Buffer
	err = (&service.Service{Open: service.Opened(db)}).Query(t.Context(), api.QueryRequest{Format: "csv",
		SQL: "SELECT * REPLACE (epoch_us(ts) AS ts) FROM x.y"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	rows, err := commas.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range rows[1:] { // the first are the names
		got = append(got, strings.Join(v, "|"))
	}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "NULL", "")
	}
	compareRows(t, got, want)
}

func compareRows(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("row %d is %.200s, want %.200s", i, got[i], want[i])
		}
	}
}

// BenchmarkFile writes files of few rows, and of what a thousand nodes ship in a minute.
func BenchmarkFile(b *testing.B) {
	for _, c := range []struct{ pieces, rows int }{{1, 10}, {20, 50}, {2000, 50}} {
		b.Run(fmt.Sprintf("%dx%d", c.pieces, c.rows), func(b *testing.B) {
			rows := ledger{}
			var pieces []piece
			for i := range c.pieces {
				p := piece{"llama", fmt.Sprintf("node-%d/s1", i), "s1", 1, batch(b, i, 0).Rows.Slice(0, c.rows)}
				pieces = append(pieces, p)
				rows.add(p.stream, p.span())
			}
			path := filepath.Join(b.TempDir(), "x")
			for b.Loop() {
				f, err := os.Create(path)
				if err != nil {
					b.Fatal(err)
				}
				if err := writeParquet(f, pieces, rows); err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
			b.ReportMetric(float64(c.pieces*c.rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
