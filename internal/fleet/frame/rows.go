package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/table"
)

// Type is what a column's values are. Headers have its number, so a new one comes at the end.
type Type int

// Types of columns.
const (
	Int64 Type = iota
	Int32
	Float64
	Bool
	Text
	Time // µs since 1970 (UTC)
)

// words are DuckDB's words for the types, in their order.
var words = []string{"BIGINT", "INTEGER", "DOUBLE", "BOOLEAN", "VARCHAR", "TIMESTAMP"}

// String is DuckDB's word for the type.
func (t Type) String() string { return words[t] }

// size is how many bytes a value takes; 0 for texts, each of which has its own length.
func (t Type) size() int { return [...]int{8, 4, 8, 1, 0, 8}[t] }

// Field is a column's name and type.
type Field struct {
	Name string `json:"n"`
	Type Type   `json:"t"`
}

// front are the columns that come before a table's own. Rank is one of its own in most tables, and moves to the front.
var front = []Field{{"job", Text}, {"node", Text}, {"rank", Int32}}

// Schema is what the rows of a table look like in a frame: job, node and rank, then the view's columns.
func Schema(t *table.Table) ([]Field, error) {
	fields := slices.Clone(front)
	for _, c := range t.Columns {
		if c.Name == "" || c.Name == "rank" {
			continue
		}
		i := slices.Index(words, c.Type)
		if i < 0 {
			return nil, fmt.Errorf("table %s: column %s of type %s can't be shipped", t.View, c.Name, c.Type)
		}
		fields = append(fields, Field{c.Name, Type(i)})
	}
	return fields, nil
}

// checkFields refuses columns that no frame has.
func checkFields(fields []Field) error {
	if len(fields) < len(front) || len(fields) > maxFields {
		return fmt.Errorf("%w: %d columns", ErrCorrupt, len(fields))
	}
	seen := map[string]bool{}
	for i, f := range fields {
		lower := strings.ToLower(f.Name) // SQL takes step and STEP for one
		if f.Type < 0 || int(f.Type) >= len(words) || seen[lower] || CheckName("column", f.Name) != nil {
			return fmt.Errorf("%w: column %.140q of type %d", ErrCorrupt, f.Name, int(f.Type))
		}
		seen[lower] = true
		if i < len(front) && f != front[i] {
			return fmt.Errorf("%w: column %d is %.140q, not %s", ErrCorrupt, i, f.Name, front[i].Name)
		}
	}
	return nil
}

// Rows are rows of some columns. Nobody changes them, so what is cut out of them shares their bytes.
type Rows struct {
	columns []Column
	from, n int // the rows that these are, of all that the columns have
}

// Len is how many rows there are.
func (r Rows) Len() int { return r.n }

// Width is how many columns they have.
func (r Rows) Width() int { return len(r.columns) }

// Field is the k-th column's.
func (r Rows) Field(k int) Field { return r.columns[k].Field }

// Fields are those of all columns.
func (r Rows) Fields() []Field {
	fields := make([]Field, len(r.columns))
	for k, c := range r.columns {
		fields[k] = c.Field
	}
	return fields
}

// Column is the k-th one.
func (r Rows) Column(k int) Column {
	c := r.columns[k]
	c.from, c.n = r.from, r.n
	return c
}

// Slice is the rows from one up to another.
func (r Rows) Slice(from, to int) Rows {
	if from < 0 || from > to || to > r.n {
		panic(fmt.Sprintf("rows %d to %d of %d", from, to, r.n))
	}
	return Rows{r.columns, r.from + from, to - from}
}

// Within is the rows with NULL where the k-th column, of whole numbers or times, has a value that is less or more.
func (r Rows) Within(k int, low, high int64) Rows {
	c := r.Column(k)
	return r.keep(k, func(row int) bool { return c.Int(row) >= low && c.Int(row) <= high })
}

// WithinFloat is Within for a column of type Float64. What is no number is not within.
func (r Rows) WithinFloat(k int, low, high float64) Rows {
	c := r.Column(k)
	return r.keep(k, func(row int) bool { return c.Float(row) >= low && c.Float(row) <= high })
}

// keep is the rows with NULL where the k-th column's value does not fit.
func (r Rows) keep(k int, fits func(row int) bool) Rows {
	c := r.Column(k)
	has, changed := make([]byte, (r.from+r.n+7)/8), false
	for row := range r.n {
		if c.Null(row) {
			continue
		}
		if !fits(row) {
			changed = true
			continue
		}
		at := r.from + row
		has[at/8] |= 1 << (at % 8)
	}
	if !changed {
		return r
	}
	r.columns = slices.Clone(r.columns)
	r.columns[k].has = has
	return r
}

// Column has a value or NULL for each row. Int, Float, Bool and Text read a value; each is for columns of its types.
type Column struct {
	Field
	from, n int
	empty   bool     // all rows are NULL, and there is nothing below
	has     []byte   // which rows have a value: a bit for each, the lowest first; nil: all of them
	values  []byte   // little-endian, also where a row is NULL; the bytes of texts
	ends    []uint32 // of texts: where each begins in values, and where the last one ends
}

// Len is how many rows there are.
func (c *Column) Len() int { return c.n }

// Null says that a row has no value.
func (c *Column) Null(row int) bool {
	row += c.from
	return c.empty || c.has != nil && c.has[row/8]>>(row%8)&1 == 0
}

// Int is a value of type Int64, Int32 or Time.
func (c *Column) Int(row int) int64 {
	row += c.from
	if c.Type == Int32 {
		return int64(int32(binary.LittleEndian.Uint32(c.values[4*row:])))
	}
	return int64(binary.LittleEndian.Uint64(c.values[8*row:]))
}

// Float is a value of type Float64.
func (c *Column) Float(row int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(c.values[8*(row+c.from):]))
}

// Bool is a value of type Bool.
func (c *Column) Bool(row int) bool { return c.values[row+c.from] != 0 }

// Text is a value of type Text.
func (c *Column) Text(row int) string { return string(c.Bytes(row)) }

// Bytes is Text without a copy, for reading alone.
func (c *Column) Bytes(row int) []byte {
	row += c.from
	return c.values[c.ends[row]:c.ends[row+1]]
}

// Builder makes rows: each row is a value or NULL of every column.
type Builder struct {
	fields  []Field
	columns []Column
	nulls   []int // of each column
}

// NewBuilder makes one for rows of these columns.
func NewBuilder(fields []Field) *Builder {
	b := &Builder{fields: fields}
	b.begin()
	return b
}

func (b *Builder) begin() {
	b.columns, b.nulls = make([]Column, len(b.fields)), make([]int, len(b.fields))
	for k, f := range b.fields {
		b.columns[k] = Column{Field: f}
		if f.Type == Text {
			b.columns[k].ends = []uint32{0}
		}
	}
}

// Fields are those of the columns.
func (b *Builder) Fields() []Field { return b.fields }

// next is a column whose next row is NULL, or has the value that is added to it then.
func (b *Builder) next(k int, null bool) *Column {
	c := &b.columns[k]
	if c.n%8 == 0 {
		c.has = append(c.has, 0)
	}
	if null {
		b.nulls[k]++
	} else {
		c.has[c.n/8] |= 1 << (c.n % 8)
	}
	c.n++
	return c
}

// Null adds no value to a column.
func (b *Builder) Null(k int) {
	c := b.next(k, true)
	if c.Type == Text {
		c.ends = append(c.ends, uint32(len(c.values)))
		return
	}
	var zero [8]byte
	c.values = append(c.values, zero[:c.Type.size()]...)
}

// Int adds a value to a column of type Int64, Int32 or Time.
func (b *Builder) Int(k int, v int64) {
	c := b.next(k, false)
	if c.Type == Int32 {
		c.values = binary.LittleEndian.AppendUint32(c.values, uint32(int32(v)))
		return
	}
	c.values = binary.LittleEndian.AppendUint64(c.values, uint64(v))
}

// Float adds a value to a column of type Float64.
func (b *Builder) Float(k int, v float64) {
	c := b.next(k, false)
	c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(v))
}

// Bool adds a value to a column of type Bool.
func (b *Builder) Bool(k int, v bool) {
	c := b.next(k, false)
	value := byte(0)
	if v {
		value = 1
	}
	c.values = append(c.values, value)
}

// Text adds a value to a column of type Text.
func (b *Builder) Text(k int, v string) {
	c := b.next(k, false)
	c.values = append(c.values, v...)
	c.ends = append(c.ends, uint32(len(c.values)))
}

// Rows are those that were added; then the builder begins anew.
func (b *Builder) Rows() Rows {
	r := Rows{columns: b.columns}
	for k := range r.columns {
		c := &r.columns[k]
		if c.n != r.columns[0].n {
			panic(fmt.Sprintf("%d rows of column %s, %d of %s", c.n, c.Name, r.columns[0].n, r.columns[0].Name))
		}
		r.n = c.n
		switch b.nulls[k] {
		case c.n:
			*c = Column{Field: c.Field, empty: true}
		case 0:
			c.has = nil
		}
	}
	b.begin()
	return r
}
