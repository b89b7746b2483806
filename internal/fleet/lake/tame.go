package lake

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Bounds of values. A node may send any, and a question to all rows fails with the first on which its arithmetic does:
// the difference of two whole numbers within them still is one, and all parts of a date can be had of a time.
const maxWhole = 1<<62 - 1

var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	lastTime  = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// tame makes NULL of values that nothing of ours has. It releases the record, whose place the result takes.
func tame(r arrow.RecordBatch) arrow.RecordBatch {
	columns, changed := make([]arrow.Array, r.NumCols()), false
	for i := range columns {
		columns[i] = r.Column(i)
		switch c := columns[i].(type) {
		case *array.Int64:
			columns[i] = within(c, c.Int64Values(), -maxWhole, maxWhole)
		case *array.Timestamp:
			columns[i] = within(c, c.TimestampValues(), arrow.Timestamp(firstTime), arrow.Timestamp(lastTime))
		}
		if columns[i] != r.Column(i) {
			changed = true
			defer columns[i].Release()
		}
	}
	if !changed {
		return r
	}
	defer r.Release()
	return array.NewRecordBatch(r.Schema(), columns, r.NumRows())
}

// within gives the column itself where all of its values are, and else one that has NULL for the others.
func within[T arrow.Timestamp | int64](c arrow.Array, values []T, low, high T) arrow.Array {
	valid, beyond := make([]bool, len(values)), false
	for i, v := range values {
		valid[i] = c.IsValid(i) && v >= low && v <= high
		beyond = beyond || valid[i] != c.IsValid(i)
	}
	if !beyond {
		return c
	}
	b := array.NewBuilder(memory.DefaultAllocator, c.DataType())
	defer b.Release()
	switch b := b.(type) {
	case *array.Int64Builder:
		b.AppendValues(any(values).([]int64), valid)
	case *array.TimestampBuilder:
		b.AppendValues(any(values).([]arrow.Timestamp), valid)
	}
	return b.NewArray()
}
