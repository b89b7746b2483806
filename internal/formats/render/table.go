package render

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// The widths of columns come from the first rows; these two bounds limit the memory for them. A wider value in a later
// row overflows its column (in a terminal it is shortened).
const (
	measuredRows  = 10_000   // more than anybody reads in a terminal
	measuredBytes = 16 << 20 // 10,000 rows of 1.6 KB; a name can have 100,000 characters
)

// widestColumn bounds the padding when nothing is cut: one name of 100,000 characters would make every row as long.
// Wider values overflow their column.
const widestColumn = 256

type cell struct {
	text string
	null bool
}

// column of a table while it is laid out.
type column struct {
	model.Column
	title  string
	right  bool // numbers
	whole  bool // never cut
	width  int  // terminal cells
	hidden bool
}

// table writes rows as psql does: a head, a line, the rows, their number.
type table struct {
	out     *bufio.Writer
	o       Options
	columns []column
	notes   layoutNotes
	line    []byte
	err     error // the first one of a write
}

func writeTable(out *bufio.Writer, rows Rows, o Options) error {
	t := newTable(out, rows.Columns(), o)
	if isPlan(rows.Columns()) {
		return t.plan(rows)
	}
	first, more := t.measure(rows)
	if o.Width > 0 {
		t.notes = fit(t.columns, o.Width, o.Spare)
	} else {
		limitPadding(t.columns)
	}
	t.head()
	n := int64(len(first))
	for _, r := range first {
		t.row(r)
	}
	first = nil
	for more && t.err == nil && rows.Next() {
		t.row(t.cells(rows.Values()))
		n++
	}
	t.foot(n)
	if t.err != nil {
		return fmt.Errorf("write result: %w", t.err)
	}
	return nil
}

// isPlan recognises the result of EXPLAIN, whose values are drawings of many lines.
func isPlan(columns []model.Column) bool {
	return len(columns) == 2 && columns[0].Name == "explain_key" && columns[1].Name == "explain_value"
}

// plan writes the drawings as they are, like DuckDB's own shell.
func (t *table) plan(rows Rows) error {
	for t.err == nil && rows.Next() {
		drawing, _ := rows.Values()[1].(string)
		for line := range strings.Lines(drawing) {
			t.end([]byte(plain.Line(strings.TrimSuffix(line, "\n"))))
		}
	}
	if t.err != nil {
		return fmt.Errorf("write result: %w", t.err)
	}
	return nil
}

func newTable(out *bufio.Writer, columns []model.Column, o Options) *table {
	t := &table{out: out, o: o}
	for _, c := range columns {
		title := plain.Line(c.Name)
		t.columns = append(t.columns, column{Column: c, title: title, right: isNumeric(c.Type), whole: isWhole(c.Type),
			width: textWidth(title)})
	}
	return t
}

// measure keeps the first rows and widens the columns for them; more says that there may be other rows.
func (t *table) measure(rows Rows) (first [][]cell, more bool) {
	size := 0
	for len(first) < measuredRows && size < measuredBytes {
		if !rows.Next() {
			return first, false
		}
		r := t.cells(rows.Values())
		for i, c := range r {
			t.columns[i].width = max(t.columns[i].width, textWidth(c.text))
			size += len(c.text)
		}
		first = append(first, r)
	}
	return first, true
}

func limitPadding(columns []column) {
	for i := range columns {
		columns[i].width = min(columns[i].width, widestColumn)
	}
}

func (t *table) cells(values []any) []cell {
	out := make([]cell, len(values))
	for i, v := range values {
		out[i] = cell{t.cellText(v, t.columns[i].Type), v == nil}
	}
	return out
}

func (t *table) cellText(v any, columnType string) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case float64:
		if t.o.Width > 0 {
			return roundedText(v, 64)
		}
	case float32:
		if t.o.Width > 0 {
			return roundedText(float64(v), 32)
		}
	}
	if isNested(v) {
		return string(appendJSON(nil, v, columnType))
	}
	return plain.Line(scalarText(v, columnType))
}

func (t *table) head() {
	titles := make([]cell, len(t.columns))
	for i, c := range t.columns {
		titles[i].text = c.title
	}
	t.row(titles)
	b := t.line[:0]
	t.each(func(i int, first bool) {
		width := 1 // the mark of hidden columns
		if i >= 0 {
			width = t.columns[i].width
		}
		if !first {
			b = append(b, '+')
		}
		b = append(b, strings.Repeat("-", width+2)...)
	})
	t.end(b)
}

func (t *table) row(cells []cell) {
	b := t.line[:0]
	t.each(func(i int, first bool) {
		if !first {
			b = append(b, " |"...)
		}
		b = append(b, ' ')
		if i < 0 {
			b = append(b, ellipsis...)
			return
		}
		b = t.appendCell(b, cells[i], t.columns[i])
	})
	t.end(b)
}

// each calls f for every visible column, and once with -1 where columns are hidden.
func (t *table) each(f func(i int, first bool)) {
	first, marked := true, false
	for i, c := range t.columns {
		if c.hidden {
			if !marked {
				f(-1, first)
				first, marked = false, true
			}
			continue
		}
		f(i, first)
		first = false
	}
}

func (t *table) appendCell(b []byte, c cell, col column) []byte {
	text := c.text
	width := textWidth(text)
	if t.o.Width > 0 && width > col.width && !col.whole {
		text = shorten(text, col.width)
		width = textWidth(text)
	}
	gap := max(col.width-width, 0)
	if col.right {
		b = appendSpaces(b, gap)
		gap = 0
	}
	if c.null && t.o.Width > 0 && !t.o.Plain {
		// so that it isn't mistaken for the string 'NULL'
		b = append(append(append(b, plain.Faint...), text...), plain.Unfaint...)
	} else {
		b = append(b, text...)
	}
	return appendSpaces(b, gap)
}

func appendSpaces(b []byte, n int) []byte {
	for ; n > 0; n-- {
		b = append(b, ' ')
	}
	return b
}

// end writes a line without the blanks at its end.
func (t *table) end(b []byte) {
	t.line = b
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	if _, err := t.out.Write(append(b, '\n')); err != nil {
		t.err = err // bufio repeats the first one
	}
}

func (t *table) foot(n int64) {
	if !t.o.NoRows {
		t.end(fmt.Appendf(nil, "(%s %s)", units.Count(n), plural(int(min(n, 2)), "row")))
	}
	for _, note := range t.notes.lines(t.columns, t.o) {
		t.end([]byte(note))
	}
}
