package table

import (
	"reflect"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// Column is one column: of the view, of what is stored behind it, or of both.
type Column struct {
	Name, Type, Doc string // in the view; Doc has the unit. Type is DuckDB's word, VARCHAR for its enums
	As              string // what the view shows, in SQL; "": the stored column as it is

	Stored, StoredType, StoredDoc string // in schema store; Stored is "" where the view computes the column

	From  any    // pointer to the field that is stored, in the table's Row; nil: not stored, or by other means
	Fill  Fill   // how a value gets into the database
	Null  int64  // the number that becomes NULL, if HasNull
	Merge string // the aggregate that makes one value of several rows'; "": the rows are those that have the same
	Since int    // number of the migration that adds it to a table that there was before

	HasNull bool
}

// Fill is how a value gets from a row's field into a column.
type Fill uint8

// What the fields are.
const (
	Int64 Fill = iota + 1 // counts, sizes, µs since the epoch
	Int32                 // process ids, ranks …
	Float                 // NULL if it is no finite number
	Bool
	Text
	TextOrNull // "" becomes NULL
	Device     // number of a CUDA device, negative for the host: an enum
	Stage      // model.Stage: an enum
	NameID     // number of a name: its text
	Append     // number of the transaction that appended the row
)

// Offset is where the column's field lies in a row, in bytes.
func (c *Column) Offset(t *Table) uintptr {
	return reflect.ValueOf(c.From).Pointer() - reflect.ValueOf(t.Row).Pointer()
}

// columns are a table's. They are described by pointers, and what makes one is called, not inlined: of five hundred
// columns that is 300 kB of program less.
func columns(described ...*Column) []Column {
	out := make([]Column, len(described), len(described)+1) // and batch
	for i, c := range described {
		out[i] = *c
	}
	return out
}

//go:noinline
func column(name, typ string, from any, fill Fill, doc string) *Column {
	return &Column{Name: name, Type: typ, Doc: doc, Stored: name, StoredType: typ, StoredDoc: doc,
		From: from, Fill: fill}
}

// orNullAs makes one number stand for NULL.
func (c *Column) orNullAs(null int64) *Column {
	c.Null, c.HasNull = null, true
	return c
}

// gauge is what may not have been taken: model.Null is NULL.
func gauge[T ~int64](name string, from *T, doc string) *Column {
	return column(name, "BIGINT", from, Int64, doc).orNullAs(model.Null)
}

// number is known in every row.
func number[T ~int32 | ~int64](name string, from *T, doc string) *Column {
	if reflect.TypeFor[T]().Kind() == reflect.Int64 {
		return column(name, "BIGINT", from, Int64, doc)
	}
	return column(name, "INTEGER", from, Int32, doc)
}

// numberOr is a number of which one value is NULL.
func numberOr[T ~int32](name string, from *T, null int32, doc string) *Column {
	return column(name, "INTEGER", from, Int32, doc).orNullAs(int64(null))
}

func text[T ~string](name string, from *T, doc string) *Column {
	return column(name, "VARCHAR", from, Text, doc)
}

func textOrNull(name string, from *string, doc string) *Column {
	return column(name, "VARCHAR", from, TextOrNull, doc)
}

func flag(name string, from *bool, doc string) *Column {
	return column(name, "BOOLEAN", from, Bool, doc)
}

// share is a number with a fraction; what is no finite number is NULL.
func share[T ~float64](name string, from *T, doc string) *Column {
	return column(name, "DOUBLE", from, Float, doc)
}

// at is a time, in µs since the epoch.
func at(name string, from *int64, doc string) *Column {
	return column(name, "TIMESTAMP", from, Int64, doc)
}

// atOr is a time of which one value is NULL.
func atOr(name string, from *int64, null int64, doc string) *Column {
	return at(name, from, doc).orNullAs(null)
}

func device(from *int8, doc string) *Column {
	c := column("device", "VARCHAR", from, Device, doc)
	c.StoredType = "main.device"
	return c
}

func stage(from *model.Stage, doc string) *Column {
	c := column("stage", "VARCHAR", from, Stage, doc)
	c.StoredType = "main.stage"
	return c
}

func name(name string, from *int32, doc string) *Column {
	return column(name, "VARCHAR", from, NameID, doc)
}

// computed is a column of the view alone.
//
//go:noinline
func computed(name, typ, as, doc string) *Column {
	return &Column{Name: name, Type: typ, As: as, Doc: doc}
}

// internal is a stored column that no batch fills and no view shows.
func internal(name, typ, doc string) *Column {
	return &Column{Stored: name, StoredType: typ, StoredDoc: doc}
}

// The columns that most tables have.

func ts(from *int64) *Column { return at("ts", from, "time (UTC, to the µs)") }

func pid(from *int32) *Column { return number("pid", from, "process id") }

func rank[T ~int32](from *T) *Column {
	return numberOr("rank", from, -1, "rank in the distributed job; NULL while unknown")
}

// rankOfAny is rank in tables that have processes of all sorts.
func rankOfAny(from *int32) *Column {
	return numberOr("rank", from, -1,
		"rank in the distributed job; NULL while unknown, and of processes that have none")
}

// as shows the column under a name of its own, as what SQL makes of it.
func (c *Column) as(name, typ, sql, doc string) *Column {
	c.Name, c.Type, c.As, c.Doc = name, typ, sql, doc
	return c
}

// inMB shows bytes as MB. 2^-20 is exact in a DOUBLE: no size below 8 PiB loses a byte.
func (c *Column) inMB(doc string) *Column {
	return c.as(c.Stored, "DOUBLE", c.Stored+" * 9.5367431640625e-7::DOUBLE", doc)
}

// orNull shows an empty text as NULL.
func (c *Column) orNull() *Column {
	return c.as(c.Name, c.Type, "nullif("+c.Stored+", '')", c.Doc)
}

// merge says how the values of neighbouring rows become one: an aggregate of SQL.
func (c *Column) merge(how string) *Column {
	c.Merge = how
	return c
}

// since says which migration adds the column, where the table is older.
func (c *Column) since(migration int) *Column {
	c.Since = migration
	return c
}
