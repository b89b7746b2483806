package store

import (
	"context"
	"fmt"
	"math"
	"slices"
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
	var v []float64
	for width := len(rows.columns); rows.nextFloats(&v); {
		for i := 0; i < len(v); i += width {
			row(v[i : i+width])
		}
	}
	return rows.Err()
}

// nextFloats goes to the next rows and makes v their values, row by row; false at the end and on an error.
func (r *Rows) nextFloats(v *[]float64) bool {
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
	r.mu.err = r.mu.dec.floats(v)
	return r.mu.err == nil
}

// floats decodes the loaded chunk, column by column, into rows.
func (d *decoder) floats(v *[]float64) error {
	width := len(d.readers)
	*v = slices.Grow((*v)[:0], width*d.size)[:width*d.size]
	for c, r := range d.readers {
		n, ok := r.(interface {
			floats(out []float64, width int)
		})
		if !ok {
			return &Error{Msg: fmt.Sprintf("column %q has type %s, which is no number of 64 bits", d.columns[c].Name,
				d.columns[c].Type)}
		}
		if d.size > 0 {
			n.floats((*v)[c:], width)
		}
	}
	return nil
}

// numbers reads a type of numbers of at most 64 bits.
type numbers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64] struct{ flat[T] }

func newNumbers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](
	convert func(*T) any) reader {
	return &numbers[T]{flat[T]{convert: convert}}
}

// floats sets each width-th number to a value of the column, from the first on.
func (n *numbers[T]) floats(out []float64, width int) {
	values := unsafe.Slice((*T)(n.data), (len(out)+width-1)/width)
	if n.valid == nil {
		for i, v := range values {
			out[i*width] = float64(v)
		}
		return
	}
	for i, v := range values {
		if out[i*width] = float64(v); n.null(i) {
			out[i*width] = math.NaN()
		}
	}
}
