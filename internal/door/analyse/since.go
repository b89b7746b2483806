package analyse

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// mostKept readings of a table are kept from one judging to the next, a day at one a second: 8 MB of a cgroup's, which
// have most columns. Of longer runs all are read anew each time.
const mostKept = 90_000

// batch is the number of the transaction that a row came with; 0 for one of the first versions.
const batch = "coalesce(" + table.BatchColumn + ", 0)"

// cursor is how far a table was read whose rows never change. Those of one transaction share a number, and later ones
// have higher ones. Retention takes rows away: then all are read again.
type cursor struct {
	last float64 // number of the newest transaction that was read
	rows int     // that were read
	read int     // the same, of all readings, for tests
}

// since reads the rows of a table in schema store that came behind a cursor; all, after reset was called, where it is
// at the beginning or rows are no longer there. where says which rows count at all.
func (l *loader) since(c *cursor, table, columns, where string, row func(v []float64),
	reset func() error) error {
	read := func() error {
		if c.rows == 0 {
			*c = cursor{last: -1, read: c.read}
			if err := reset(); err != nil {
				return err
			}
		}
		sql := fmt.Sprintf("SELECT %s, %s::DOUBLE FROM store.%s WHERE %s AND %[2]s > %.0[5]f", columns, batch, table,
			where, c.last)
		return l.floats(sql, func(v []float64) {
			last := len(v) - 1
			row(v[:last])
			c.last = max(c.last, v[last])
			c.rows++
			c.read++
		})
	}
	for range 2 {
		if err := read(); err != nil {
			return err
		}
		rows, err := l.one("SELECT count(*) FROM store.%s WHERE %s AND %s <= %.0f", table, where, batch, c.last)
		if err != nil || int(rows) == c.rows {
			return err
		}
		c.rows = 0
	}
	return read() // it changes as fast as it is read
}

// moments are the readings of a table, in order of time. Whoever has the list may go on reading it: what comes is put
// behind, or into a copy.
type moments[T any] struct {
	cursor
	list []T
}

// readings reads a table of moments in order of time, of very long runs the younger part: what came since the last
// reading, behind what was kept of it.
func readings[T any](l *loader, keep func(s *Sources) *moments[T], table, columns string, of func(v []float64) T,
	us func(x T) float64) ([]T, error) {
	k := &moments[T]{}
	if from := l.o.Sources; from != nil {
		from.mu.Lock()
		defer from.mu.Unlock()
		k = keep(from)
	}
	err := l.since(&k.cursor, table, "epoch_us(ts), "+columns, "true", func(v []float64) {
		if len(k.list) >= 2*MaxReadings {
			k.list = slices.Clone(k.list[MaxReadings:])
		}
		k.list = append(k.list, of(v))
	}, func() error {
		n, err := l.count("store." + table)
		k.list = make([]T, 0, min(n, 2*MaxReadings))
		return err
	})
	byTime := func(a, b T) int { return cmp.Compare(us(a), us(b)) }
	if !slices.IsSortedFunc(k.list, byTime) {
		k.list = slices.Clone(k.list)
		order.Stable(k.list, byTime)
	}
	list := k.list[max(0, len(k.list)-MaxReadings):]
	if len(list) > mostKept {
		*k = moments[T]{}
	}
	return list, err
}
