package store

import (
	"context"
	"fmt"
	"math"
	"unsafe"
)

// Floats is Each for a statement of numbers: every value is a float64, NULL is NaN. It decodes columns, not rows, and
// makes no value of its own, so that a table of a day costs a fraction of what Each takes. Integers beyond 2^53 lose
// digits. The row is overwritten after row has returned.
func Floats(ctx context.Context, from Querier, sql string, row func(v []float64)) error {
	rows, err := from.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, v := make([][]float64, len(rows.columns)), make([]float64, len(rows.columns))
	for rows.nextFloats(columns) {
		for i := range columns[0] {
			for c := range v {
				v[c] = columns[c][i]
			}
			row(v)
		}
	}
	return rows.Err()
}

// nextFloats goes to the next rows and fills columns with them; false at the end and on an error.
func (r *Rows) nextFloats(columns [][]float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.done || r.mu.err != nil {
		return false
	}
	r.fetchLocked()
	if r.mu.done || r.mu.err != nil {
		return false
	}
	r.mu.next = r.mu.dec.size
	r.mu.err = r.mu.dec.floats(columns)
	return r.mu.err == nil
}

// floats decodes the loaded chunk, column by column.
func (d *decoder) floats(columns [][]float64) error {
	for c, r := range d.readers {
		n, ok := r.(interface {
			floats(out []float64, size int) []float64
		})
		if !ok {
			return &Error{Msg: fmt.Sprintf("column %q has type %s, which is no number of 64 bits", d.columns[c].Name,
				d.columns[c].Type)}
		}
		columns[c] = n.floats(columns[c][:0], d.size)
	}
	return nil
}

// numbers reads a type of numbers of at most 64 bits.
type numbers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64] struct{ flat[T] }

func newNumbers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](
	convert func(*T) any) reader {
	return &numbers[T]{flat[T]{convert: convert}}
}

// floats appends the column's values, of so many rows.
func (n *numbers[T]) floats(out []float64, size int) []float64 {
	for _, v := range unsafe.Slice((*T)(n.data), size) {
		out = append(out, float64(v))
	}
	if n.valid != nil {
		for i := range out {
			if n.null(i) {
				out[i] = math.NaN()
			}
		}
	}
	return out
}
