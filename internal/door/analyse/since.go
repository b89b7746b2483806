package analyse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// countedTables are those whose rows are counted before anything is read: what is empty, or was read already, need not
// be asked, which costs half of what a question about few rows does.
var countedTables = []string{"steps", "step_devices", "host_memory", "cgroup_memory", "process_memory", "tensors",
	"objects", "gpu_utilization", "gpu_devices", "native_live"}

// count counts the rows, in one statement, or where an older database lacks some table, of each that is there.
func (l *loader) count() error {
	if err := l.countIn(countedTables); err != nil || len(l.counts) > 0 {
		return err
	}
	for i := range countedTables {
		if err := l.countIn(countedTables[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) countIn(tables []string) error {
	parts := make([]string, len(tables))
	for i, table := range tables {
		parts[i] = fmt.Sprintf("SELECT %d, count(*) FROM store.%s", i, table)
	}
	return l.floats(strings.Join(parts, " UNION ALL "), func(v []float64) { l.counts[tables[int(v[0])]] = int(v[1]) })
}

// came notes that a row was read.
func (c *cursor) came(batch float64) {
	c.last = max(c.last, batch)
	c.rows++
	c.read++
}

// since has the rows of a table in schema store read that came behind a cursor; all, after reset was called, where it
// is at the beginning or rows are no longer there. where says which rows count at all. read asks the statement, whose
// last column is the number of a row's transaction, and tells the cursor of each row.
func (l *loader) since(c *cursor, table, columns, where string, read func(sql string) error, reset func()) error {
	next := func() error {
		if c.rows == 0 {
			*c = cursor{last: -1, read: c.read}
			reset()
		}
		if c.rows == l.counts[table] {
			return nil
		}
		return read(fmt.Sprintf("SELECT %s, %s::DOUBLE FROM store.%s WHERE %s AND %[2]s > %.0[5]f", columns, batch,
			table, where, c.last))
	}
	for range 2 {
		if err := next(); err != nil || c.rows == l.counts[table] {
			return err
		}
		rows, err := l.one("SELECT count(*) FROM store.%s WHERE %s AND %s <= %.0f", table, where, batch, c.last)
		if err != nil || int(rows) == c.rows {
			return err
		}
		c.rows = 0
	}
	return next() // it changes as fast as it is read
}

// moments are the readings of a table, in order of time. Whoever has the list may go on reading it: what comes is put
// behind, or into a copy.
type moments[T any] struct {
	cursor
	list   []T
	sorted int // so many of them are known to be in order
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
	err := l.since(&k.cursor, table, "epoch_us(ts), "+columns, "true", func(sql string) error {
		return l.floats(sql, func(v []float64) {
			if len(k.list) >= 2*MaxReadings {
				k.list, k.sorted = slices.Clone(k.list[MaxReadings:]), 0
			}
			k.list = append(k.list, of(v))
			k.came(v[len(v)-1])
		})
	}, func() { k.list, k.sorted = make([]T, 0, min(l.counts[table], 2*MaxReadings)), 0 })
	byTime := func(a, b T) int { return cmp.Compare(us(a), us(b)) }
	if !slices.IsSortedFunc(k.list[max(0, k.sorted-1):], byTime) {
		k.list = slices.Clone(k.list)
		order.Stable(k.list, byTime)
	}
	k.sorted = len(k.list)
	list := k.list[max(0, len(k.list)-MaxReadings):]
	if len(list) > mostKept {
		*k = moments[T]{}
	}
	return list, err
}
