package store

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// This file appends rows by the descriptions of the tables: a column names the field of the row that fills it.

// places queries the positions of columns in the stored tables, by table and name. A column that no field fills, or a
// field without a column, is a mistake in a description. It is reported here, before it costs a row.
func places(c *conn) (map[string]map[string]int, error) {
	all := map[string]map[string]int{}
	err := c.all("SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'store' "+
		"ORDER BY table_name, column_index", func(v []any) {
		name := v[0].(string)
		if all[name] == nil {
			all[name] = map[string]int{}
		}
		all[name][v[1].(string)] = len(all[name])
	})
	if err != nil {
		return nil, err
	}
	for _, t := range table.All {
		n := 0
		for i := range t.Columns {
			if stored := t.Columns[i].Stored; stored != "" {
				if _, there := all[t.Store][stored]; !there {
					return nil, fmt.Errorf("store.%s has no column %s", t.Store, stored)
				}
				n++
			}
		}
		if n != len(all[t.Store]) {
			return nil, fmt.Errorf("store.%s has %d columns, not %d", t.Store, len(all[t.Store]), n)
		}
	}
	return all, nil
}

// fill appends rows to a table; list points to a slice of them.
func (w *writer) fill(c *conn, t *table.Table, list any) error {
	rows := reflect.ValueOf(list).Elem()
	if rows.Len() == 0 {
		return nil
	}
	if t.Key != "" {
		keys, latest := latest(t, rows)
		if err := c.exec("DELETE FROM store." + t.Store + " WHERE (" + t.Key + ") IN (" + keys + ")"); err != nil {
			return err
		}
		rows = latest
	}
	s, err := newSheet(c, "store", t.Store)
	if err != nil {
		return err
	}
	defer s.close()
	size, n := rows.Type().Elem().Size(), rows.Len()
	for from := 0; from < n; from += s.n {
		first := unsafe.Add(rows.UnsafePointer(), uintptr(from)*size)
		part := min(int(duck.VectorSize()), n-from)
		if err := s.append(part, func() { w.fillColumns(s, t, first, size) }); err != nil {
			return err
		}
	}
	runtime.KeepAlive(list)
	return s.finish()
}

// fillColumns fills a chunk with consecutive rows, beginning with first.
func (w *writer) fillColumns(s *sheet, t *table.Table, first unsafe.Pointer, size uintptr) {
	for i := range t.Columns {
		switch c := &t.Columns[i]; {
		case c.From != nil:
			s.col = w.places[t.Store][c.Stored]
			w.fillColumn(s, c, cells{unsafe.Add(first, c.Offset(t)), size})
		case c.Fill == table.Append:
			s.col = w.places[t.Store][c.Stored]
			each(s, func(int) int64 { return w.batch })
		}
	}
	s.col = len(s.width)
}

func (w *writer) fillColumn(s *sheet, c *table.Column, from cells) {
	switch c.Fill {
	case table.Int64:
		fillNumbers(s, from, c.HasNull, c.Null)
	case table.Int32:
		fillNumbers(s, from, c.HasNull, int32(c.Null))
	case table.Float:
		fillFloats(s, from)
	case table.Bool:
		each(s, func(i int) bool { return *cell[bool](from, i) })
	case table.Text:
		s.texts(func(i int) string { return *cell[string](from, i) })
	case table.TextOrNull:
		s.textsOrNull(func(i int) string { return *cell[string](from, i) })
	case table.Device:
		each(s, func(i int) uint8 { return device(*cell[int8](from, i)) })
	case table.Stage:
		each(s, func(i int) uint8 { return s.stage(*cell[model.Stage](from, i)) })
	case table.NameID:
		w.fillNames(s, from)
	}
}

// cells are one field of consecutive rows.
type cells struct {
	first unsafe.Pointer
	apart uintptr // bytes from one to the next
}

func cell[V any](c cells, i int) *V { return (*V)(unsafe.Add(c.first, uintptr(i)*c.apart)) }

// fillNumbers fills a column in which one number may mean NULL.
func fillNumbers[V int32 | int64](s *sheet, from cells, hasNull bool, null V) {
	v, out := column[V](s)
	var valid []uint64
	for i := range out {
		x := *cell[V](from, i)
		out[i] = x
		if x != null || !hasNull {
			continue
		}
		if valid == nil {
			valid = s.validity(v)
		}
		valid[i/64] &^= 1 << (i % 64)
	}
}

func fillFloats(s *sheet, from cells) {
	eachOr(s, func(i int) (float64, bool) {
		x := *cell[float64](from, i)
		return x, !math.IsNaN(x) && !math.IsInf(x, 0)
	})
}

// fillNames looks names up; neighbouring rows (pre and post of one module) often share one.
func (w *writer) fillNames(s *sheet, from cells) {
	last, id := w.names[0], int32(0)
	each(s, func(i int) text {
		if next := *cell[int32](from, i); next != id {
			known := false
			if last, known = w.names[next]; !known {
				s.bad = fmt.Errorf("row of store.%s: there is no name %d", s.table, next)
			}
			id = next
		}
		return last
	})
}

func (s *sheet) stage(stage model.Stage) uint8 {
	if int(stage) >= len(stageCode) {
		s.bad = fmt.Errorf("row of store.%s: there is no stage %d", s.table, stage)
		return 0
	}
	return stageCode[stage]
}

// textsOrNull fills a text column like texts, with NULL for an empty text.
func (s *sheet) textsOrNull(get func(i int) string) {
	v := duck.DataChunkGetVector(s.chunk, duck.IdxT(s.col))
	s.texts(get)
	var valid []uint64
	for i := range s.n {
		if get(i) != "" {
			continue
		}
		if valid == nil {
			valid = s.validity(v)
		}
		valid[i/64] &^= 1 << (i % 64)
	}
}

// latest returns the last row of each key, for tables in which a row replaces the earlier one with its key. They are
// sorted by the first number of the key (a pid, a device). keys lists the keys in SQL.
func latest(t *table.Table, rows reflect.Value) (keys string, out reflect.Value) {
	first, size := rows.UnsafePointer(), rows.Type().Elem().Size()
	last := map[string]int{}
	for i := range rows.Len() {
		last[keyOf(t, unsafe.Add(first, uintptr(i)*size))] = i
	}
	var list []string
	var indices []int
	for key, i := range last {
		list, indices = append(list, key), append(indices, i)
	}
	slices.Sort(list)
	order := slices.IndexFunc(t.Columns, func(c table.Column) bool { return c.Fill == table.Int32 })
	number := cells{unsafe.Add(first, t.Columns[order].Offset(t)), size}
	slices.SortFunc(indices, func(a, b int) int {
		return cmp.Or(cmp.Compare(*cell[int32](number, a), *cell[int32](number, b)), a-b)
	})
	out = reflect.MakeSlice(rows.Type(), 0, len(indices))
	for _, i := range indices {
		out = reflect.Append(out, rows.Index(i))
	}
	return strings.Join(list, ", "), out
}

// keyOf returns a row's key in SQL.
func keyOf(t *table.Table, row unsafe.Pointer) string {
	var parts []string
	for name := range strings.SplitSeq(t.Key, ", ") {
		i := slices.IndexFunc(t.Columns, func(c table.Column) bool { return c.Stored == name })
		c := &t.Columns[i]
		field := unsafe.Add(row, c.Offset(t))
		switch c.Fill {
		case table.Int32:
			parts = append(parts, itoa(int64(*(*int32)(field))))
		case table.Int64:
			parts = append(parts, itoa(*(*int64)(field)))
		default:
			parts = append(parts, quote(utf8Only(*(*string)(field))))
		}
	}
	return "(" + strings.Join(parts, ", ") + ")"
}
