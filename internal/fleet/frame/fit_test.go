package frame

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memgauge/memgauge/internal/table"
)

// made is a frame of python.steps with the given columns behind job, node and rank, as a stranger makes it: encoded
// and decoded.
func made(t testing.TB, columns ...field) (Batch, error) {
	t.Helper()
	fields := append([]arrow.Field{}, front...)
	for _, c := range columns {
		fields = append(fields, arrow.Field{Name: c.Name, Type: types[c.Type], Nullable: true})
	}
	b := array.NewRecordBuilder(memory.NewGoAllocator(), arrow.NewSchema(fields, nil))
	defer b.Release()
	const rows = 3
	for range rows {
		b.Field(0).(*array.StringBuilder).Append("j")
		b.Field(1).(*array.StringBuilder).Append("n")
		for _, f := range b.Fields()[2:] {
			f.AppendEmptyValue()
		}
	}
	record := b.NewRecordBatch()
	defer record.Release()
	h := Header{Job: "j", Node: "n", Rank: -1, Session: "s", Table: "python.steps", First: 1, Count: rows,
		Schema: table.Latest() + 1}
	raw, err := Encode(Batch{Header: h, Record: record})
	if err != nil {
		return Batch{}, err
	}
	return Decode(raw)
}

// fits says what becomes of a frame with these columns, and wants its rows to have the table's schema.
func fits(t testing.TB, columns ...field) (left int, err error) {
	t.Helper()
	b, err := made(t, columns...)
	if err != nil {
		return 0, err
	}
	fitted, left, err := b.Fit()
	if err != nil {
		return 0, err
	}
	defer fitted.Record.Release()
	want, err := Schema(table.Find("python.steps"))
	if err != nil {
		t.Fatal(err)
	}
	if !fitted.Record.Schema().Equal(want) || fitted.Record.NumRows() != 3 {
		t.Fatalf("%d rows of %v", fitted.Record.NumRows(), fitted.Record.Schema())
	}
	for i, c := range fitted.Record.Columns() {
		if c.Len() != 3 {
			t.Fatalf("column %d has %d values", i, c.Len())
		}
	}
	read(fitted.Record)
	return left, nil
}

// TestFit: whatever columns a frame has, its rows have the table's, or are refused.
func TestFit(t *testing.T) {
	const whole, text, when = 0, 4, 5
	for _, good := range []struct {
		left    int
		columns []field
	}{
		{0, nil}, {0, []field{{"ts", when}, {"step", whole}}}, // an older node has fewer columns
		{2, []field{{"step", whole}, {"of_a_newer_one", text}, {"another", whole}}},
		{2, []field{{"_session", text}, {"_row", whole}}}, // names that the lake's files have for themselves
	} {
		if left, err := fits(t, good.columns...); err != nil || left != good.left {
			t.Errorf("%v: %d left out, %v; want %d", good.columns, left, err, good.left)
		}
	}
	for _, bad := range [][]field{
		{{"STEP", text}}, {{"STEP", whole}}, {{"step", whole}, {"STEP", text}}, {{"step", text}}, {{"Job", text}},
		{{"x", text}, {"X", text}}, {{"Rank", text}},
	} {
		if left, err := fits(t, bad...); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v: %d left out, %v", bad, left, err)
		}
	}
}

// FuzzFit: frames of any columns have the table's schema after Fit, or are refused.
func FuzzFit(f *testing.F) {
	f.Add("step", "STEP", byte(0), byte(4))
	f.Add("_row", "ts", byte(0), byte(5))
	f.Fuzz(func(t *testing.T, a, b string, typeA, typeB byte) {
		_, err := fits(t, field{a, int(typeA) % len(types)}, field{b, int(typeB) % len(types)})
		if err != nil && !errors.Is(err, ErrCorrupt) && len(a)+len(b) < 1000 { // longer names make no frame
			t.Fatal(err)
		}
	})
}
