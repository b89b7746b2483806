package frame

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/memgauge/memgauge/internal/table"
)

// Errors of Honest.
var (
	ErrTable  = errors.New("no such table")              // of a newer memgauge, or of none
	ErrForged = errors.New("rows that belong to others") // rows contradict the header
)

// Honest checks what a well-formed frame says: its table is one of ours, columns that the table has are of their type,
// and every row is of the header's job and node. One column of another type would spoil every question to the table.
func (b Batch) Honest() error {
	t := table.Find(b.Table)
	if t == nil || t.View != b.Table || !t.Ships() {
		return fmt.Errorf("%w: %s", ErrTable, b.Table)
	}
	want, err := Schema(t)
	if err != nil {
		return err
	}
	for _, f := range b.Record.Schema().Fields() {
		i := slices.IndexFunc(want.Fields(), func(w arrow.Field) bool { return w.Name == f.Name })
		if i >= 0 && !arrow.TypeEqual(want.Field(i).Type, f.Type) { // one that we don't know is of a newer version
			return fmt.Errorf("%w: column %s is %s", ErrCorrupt, f.Name, f.Type)
		}
	}
	for i, name := range []string{b.Job, b.Node} {
		column, ok := b.Record.Column(i).(*array.String)
		for row := 0; ok && row < column.Len(); row++ {
			ok = column.IsValid(row) && column.Value(row) == name
		}
		if !ok {
			return fmt.Errorf("%w: not all are of %s", ErrForged, name)
		}
	}
	return nil
}
