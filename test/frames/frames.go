// Package frames makes rows of frames for tests, and reads them as text.
package frames

import (
	"fmt"
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// Fields are the columns that a view's rows have in a frame.
func Fields(view string) []frame.Field {
	fields, err := frame.Schema(table.Find(view))
	if err != nil {
		panic(err)
	}
	return fields
}

// Rows makes rows. A value is a whole number, a float64, a bool, a string, a time, or nil for NULL.
func Rows(fields []frame.Field, rows int, value func(f frame.Field, row int) any) frame.Rows {
	b := frame.NewBuilder(fields)
	for row := range rows {
		for k, f := range fields {
			add(b, k, value(f, row))
		}
	}
	return b.Rows()
}

func add(b *frame.Builder, k int, value any) {
	switch v := value.(type) {
	case nil:
		b.Null(k)
	case int:
		b.Int(k, int64(v))
	case int32:
		b.Int(k, int64(v))
	case int64:
		b.Int(k, v)
	case float64:
		b.Float(k, v)
	case bool:
		b.Bool(k, v)
	case string:
		b.Text(k, v)
	case time.Time:
		b.Int(k, v.UnixMicro())
	default:
		panic(fmt.Sprintf("a value of type %T", value))
	}
}

// Text is a value as text; "NULL" for none.
func Text(c frame.Column, row int) string {
	switch {
	case c.Null(row):
		return "NULL"
	case c.Type == frame.Float64:
		return strconv.FormatFloat(c.Float(row), 'g', -1, 64)
	case c.Type == frame.Bool:
		return strconv.FormatBool(c.Bool(row))
	case c.Type == frame.Text:
		return c.Text(row)
	}
	return strconv.FormatInt(c.Int(row), 10)
}
