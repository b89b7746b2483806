package frame

import (
	"errors"
	"slices"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/table"
)

// made is a frame of python.steps with the given columns behind job, node and rank, as a stranger makes it: encoded
// and decoded.
func made(t testing.TB, columns ...Field) (Batch, error) {
	t.Helper()
	b := NewBuilder(slices.Concat(front, columns))
	const rows = 3
	for range rows {
		b.Text(0, "j")
		b.Text(1, "n")
		for k, f := range b.Fields()[2:] {
			switch f.Type {
			case Float64:
				b.Float(k+2, 0)
			case Bool:
				b.Bool(k+2, false)
			case Text:
				b.Text(k+2, "")
			default:
				b.Int(k+2, 0)
			}
		}
	}
	h := Header{Job: "j", Node: "n", Rank: -1, Session: "s", Table: "python.steps", First: 1, Count: rows,
		Schema: table.Latest() + 1}
	raw, err := Encode(Batch{Header: h, Rows: b.Rows()})
	if err != nil {
		return Batch{}, err
	}
	return Decode(raw)
}

// fits says what becomes of a frame with these columns, and wants its rows to have the table's.
func fits(t testing.TB, columns ...Field) (left int, err error) {
	t.Helper()
	b, err := made(t, columns...)
	if err != nil {
		return 0, err
	}
	fitted, left, err := b.Fit()
	if err != nil {
		return 0, err
	}
	want, err := Schema(table.Find("python.steps"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fitted.Rows.Fields(), want) || fitted.Rows.Len() != 3 {
		t.Fatalf("%d rows of %v", fitted.Rows.Len(), fitted.Rows.Fields())
	}
	for k := range fitted.Rows.Width() {
		if c := fitted.Rows.Column(k); c.Len() != 3 {
			t.Fatalf("column %d has %d values", k, c.Len())
		}
	}
	read(fitted.Rows)
	return left, nil
}

// TestFit: whatever columns a frame has, its rows have the table's, or are refused.
func TestFit(t *testing.T) {
	for _, good := range []struct {
		left    int
		columns []Field
	}{
		{0, nil}, {0, []Field{{"ts", Time}, {"step", Int64}}}, // an older node has fewer columns
		{2, []Field{{"step", Int64}, {"of_a_newer_one", Text}, {"another", Int64}}},
		{2, []Field{{"_session", Text}, {"_row", Int64}}}, // names that the lake's files have for themselves
	} {
		if left, err := fits(t, good.columns...); err != nil || left != good.left {
			t.Errorf("%v: %d left out, %v; want %d", good.columns, left, err, good.left)
		}
	}
	for _, bad := range [][]Field{
		{{"STEP", Text}}, {{"STEP", Int64}}, {{"step", Int64}, {"STEP", Text}}, {{"step", Text}}, {{"Job", Text}},
		{{"x", Text}, {"X", Text}}, {{"Rank", Text}},
	} {
		if left, err := fits(t, bad...); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v: %d left out, %v", bad, left, err)
		}
	}
}

// TestMissingColumns: columns that a frame lacks cost a byte each when it is sent on.
func TestMissingColumns(t *testing.T) {
	b, err := made(t)
	if err != nil {
		t.Fatal(err)
	}
	fitted, _, err := b.Fit()
	if err != nil {
		t.Fatal(err)
	}
	missing := fitted.Rows.Width() - len(front)
	if had, has := len(encodeRows(b.Rows)), len(encodeRows(fitted.Rows)); missing < 20 || has != had+missing {
		t.Errorf("%d columns more made %d of %d bytes", missing, has, had)
	}
}

// FuzzFit: frames of any columns have the table's schema after Fit, or are refused.
func FuzzFit(f *testing.F) {
	f.Add("step", "STEP", byte(0), byte(4))
	f.Add("_row", "ts", byte(0), byte(5))
	f.Fuzz(func(t *testing.T, a, b string, typeA, typeB byte) {
		types := byte(len(words))
		_, err := fits(t, Field{a, Type(typeA % types)}, Field{b, Type(typeB % types)})
		if err != nil && !errors.Is(err, ErrCorrupt) && len(a)+len(b) < 1000 { // longer names make no frame
			t.Fatal(err)
		}
	})
}
