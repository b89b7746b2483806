// Package table describes every table of a session's database once: what a row is, its columns with type, unit, where
// each value comes from, how old rows are thinned and dropped. What the store appends, the views, the descriptions
// that `memgauge tables` prints, the schema's later migrations, maintenance and docs/tables.md follow from it. It
// knows rows (package model) and SQL's words for them, and nothing of DuckDB itself.
package table

//go:generate go run ./gen -md ../../../docs/tables.md

import (
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// Table is one table: rows that are stored in schema store, and the view of them that users ask.
type Table struct {
	View     string                 // schema and name, such as python.steps; "": for memgauge alone
	Store    string                 // name in schema store
	Doc      string                 // what a row is, one line
	StoreDoc string                 // of the stored table, where it is more than "behind VIEW"
	Row      any                    // pointer to the row that the columns' fields belong to
	Rows     func(*model.Batch) any // pointer to the batch's slice of such rows; nil: it is filled otherwise
	Key      string                 // stored columns: a row replaces the one that has the same; "": rows only grow
	Columns  []Column               // in the view's order
	Order    int                    // of appending, and of giving up detail: the bulkiest first
	Since    int                    // number of the migration that makes it; 0: one of migrations/*.sql does

	// How detail is given up when the database meets its limit of disk space, in this order.
	Thin  *Thin  // 1. few rows stay of each group
	Merge string // 2. these stored columns say which neighbouring rows become one; the others say how (Column.Merge)
	Kept  bool   // 3. the oldest rows are dropped, unless they are kept
}

// Thin says which rows stay when a table is thinned, in SQL.
type Thin struct {
	By      string   // of each group of these
	Seconds int      // and of so many seconds; 0: of any time
	Keep    []string // the row numbers that stay, as aggregates
}

// ThinSeconds is the time of which one row of a sampler stays, in s.
const ThinSeconds = 10

// highest keeps the row with the most of something; where that is NULL in all of them, any.
func highest(by, most string) *Thin {
	return &Thin{By: by, Seconds: ThinSeconds, Keep: []string{"arg_max(rowid, coalesce(" + most + ", 0))"}}
}

// All are the tables of a session by their Order.
var All []*Table

// described is what the files of this package say, in any order.
var described []*Table

// describe adds a table. Its columns name fields of the row, which is there for nothing else.
func describe[Row any](about func(r *Row) *Table) *Table {
	r := new(Row)
	t := about(r)
	t.Row = r
	described = append(described, t)
	return t
}

func init() {
	for _, t := range described {
		if t.Ships() {
			t.Columns = append(t.Columns, *batch(t))
		}
	}
	All = slices.SortedFunc(slices.Values(described), func(a, b *Table) int { return a.Order - b.Order })
}

// Ships reports whether a fleet's nodes send the table's rows to their hub: all that users ask and that grows by
// appending.
func (t *Table) Ships() bool { return t.View != "" && t.Rows != nil }

// BatchColumn is the stored column by which rows are found that came after others. Rows of one transaction share a
// number; later transactions have higher ones, with gaps.
const BatchColumn = "batch"

// batch is NULL in rows that an earlier version stored. A row that retention makes of several counts as the oldest of
// them: were it the newest, steps that were sent already would be sent again.
func batch(t *Table) *Column {
	c := internal(BatchColumn, "BIGINT", "number of the transaction that appended the row; NULL before version 9")
	c.Fill, c.Since = Append, 9
	if t.Merge != "" {
		c.Merge = "min"
	}
	return c
}

// Find is the table with the name, of the view or (store.NAME) of what is stored; nil if there is none.
func Find(name string) *Table {
	for _, t := range All {
		if t.View == name || name == "store."+t.Store {
			return t
		}
	}
	return nil
}

// Views are the names of all that users can ask.
func Views() (list []string) {
	for _, t := range All {
		if t.View != "" {
			list = append(list, t.View)
		}
	}
	return list
}

// Schemas are the names of the views' schemas.
func Schemas() (list []string) {
	for _, view := range Views() {
		schema, _, _ := strings.Cut(view, ".")
		list = append(list, schema)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// DocOf is the line of the view, or of the stored table behind it.
func (t *Table) DocOf(stored bool) string {
	switch {
	case !stored || t.View == "":
		return t.Doc
	case t.StoreDoc != "":
		return t.StoreDoc
	}
	return "behind " + t.View
}

// ColumnDoc is a column's line in the view or in the stored table; "" if there is no such column.
func (t *Table) ColumnDoc(column string, stored bool) string {
	for _, c := range t.Columns {
		if stored && c.Stored == column {
			return c.StoredDoc
		}
		if !stored && c.Name == column {
			return c.Doc
		}
	}
	return ""
}
