package frame

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memgauge/memgauge/internal/table"
)

// Errors of Fit.
var (
	ErrTable  = errors.New("no such table")              // of a newer memgauge, or of none
	ErrForged = errors.New("rows that belong to others") // rows contradict the header
)

// Fit makes a frame's rows have exactly the columns of their table as this program knows it, in its order and of its
// types: what is stored is never of a sender's making. A column that the table lacks is left out, and left says how
// many were (a newer memgauge has more). One that the frame lacks is NULL (an older one has fewer). One of another
// type, or whose name differs from the table's by its case alone, is ErrCorrupt: SQL takes both names for one. Every
// row is of the header's job and node. The result replaces b, whose Record it releases, also after an error.
func (b Batch) Fit() (fitted Batch, left int, err error) {
	defer b.Record.Release()
	t := table.Find(b.Table)
	if t == nil || t.View != b.Table || !t.Ships() {
		return Batch{}, 0, fmt.Errorf("%w: %s", ErrTable, b.Table)
	}
	want, err := Schema(t)
	if err != nil {
		return Batch{}, 0, err
	}
	if b.Record.Schema().Equal(want) {
		b.Record.Retain()
		return b, 0, b.ownRows()
	}
	have := map[string]int{}
	for i, f := range b.Record.Schema().Fields() {
		have[strings.ToLower(f.Name)] = i // schemaOf has refused those that differ by case alone
	}
	columns := make([]arrow.Array, want.NumFields())
	taken := 0
	for i, w := range want.Fields() {
		at, ok := have[strings.ToLower(w.Name)]
		if !ok {
			columns[i] = nulls(w.Type, b.Count)
			defer columns[i].Release()
			continue
		}
		if f := b.Record.Schema().Field(at); f.Name != w.Name || !arrow.TypeEqual(f.Type, w.Type) {
			return Batch{}, 0, fmt.Errorf("%w: column %s is %s, not %s %s", ErrCorrupt, f.Name, f.Type, w.Name, w.Type)
		}
		columns[i] = b.Record.Column(at)
		taken++
	}
	fitted = b
	fitted.Record = array.NewRecordBatch(want, columns, int64(b.Count))
	if err := fitted.ownRows(); err != nil {
		return Batch{}, 0, err
	}
	return fitted, int(b.Record.NumCols()) - taken, nil
}

// ownRows refuses, and releases, rows of another job or node than the header's.
func (b Batch) ownRows() error {
	for i, name := range []string{b.Job, b.Node} {
		column, ok := b.Record.Column(i).(*array.String)
		for row := 0; ok && row < column.Len(); row++ {
			ok = column.IsValid(row) && column.Value(row) == name
		}
		if !ok {
			b.Record.Release()
			return fmt.Errorf("%w: not all are of %s", ErrForged, name)
		}
	}
	return nil
}

// nulls is a column without values. Its buffers are one: a frame that lacks sixty columns would take sixty of them.
func nulls(t arrow.DataType, rows int) arrow.Array {
	zero := noValues
	if need := (rows + 1) * widest; zero.Len() < need { // more rows than a frame has
		zero = memory.NewBufferBytes(make([]byte, need))
	}
	buffers := []*memory.Buffer{zero, zero}
	if t.ID() == arrow.STRING {
		buffers = append(buffers, zero)
	}
	data := array.NewData(t, rows, buffers, nil, rows, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

const widest = 8 // bytes of a value

// noValues are the bits, values and offsets of as many rows as a frame has.
var noValues = memory.NewBufferBytes(make([]byte, (MaxRows+1)*widest))
