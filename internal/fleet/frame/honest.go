package frame

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/table"
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
// row is of the header's job and node.
func (b Batch) Fit() (fitted Batch, left int, err error) {
	t := table.Find(b.Table)
	if t == nil || t.View != b.Table || !t.Ships() {
		return Batch{}, 0, fmt.Errorf("%w: %s", ErrTable, b.Table)
	}
	want, err := Schema(t)
	if err != nil {
		return Batch{}, 0, err
	}
	if err := b.ownRows(); err != nil {
		return Batch{}, 0, err
	}
	if slices.Equal(b.Rows.Fields(), want) {
		return b, 0, nil
	}
	have := map[string]Column{}
	for _, c := range b.Rows.columns {
		have[strings.ToLower(c.Name)] = c // checkFields has refused those that differ by case alone
	}
	columns, taken := make([]Column, len(want)), 0
	for k, w := range want {
		c, ok := have[strings.ToLower(w.Name)]
		switch {
		case !ok:
			columns[k] = Column{Field: w, empty: true}
		case c.Field != w:
			return Batch{}, 0, fmt.Errorf("%w: column %s is %s, not %s %s", ErrCorrupt, c.Name, c.Type, w.Name, w.Type)
		default:
			columns[k] = c
			taken++
		}
	}
	left = b.Rows.Width() - taken
	b.Rows.columns = columns
	return b, left, nil
}

// ownRows refuses rows of another job or node than the header's.
func (b Batch) ownRows() error {
	for k, name := range []string{b.Job, b.Node} {
		c := b.Rows.Column(k)
		for row := range c.Len() {
			if c.Null(row) || string(c.Bytes(row)) != name {
				return fmt.Errorf("%w: not all are of %s", ErrForged, name)
			}
		}
	}
	return nil
}
