package render

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// writeCSV follows RFC 4180 with "\n" as line end, as psql and DuckDB write it and cut(1) needs it. NULL is an empty
// field and the empty string is "", which PostgreSQL and DuckDB distinguish when they read it. Strings are written byte
// for byte.
func writeCSV(out *bufio.Writer, rows Rows) error {
	columns := rows.Columns()
	var buf []byte
	for i, c := range columns {
		buf = appendField(comma(buf, i), c.Name)
	}
	if _, err := out.Write(append(buf, '\n')); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	for rows.Next() {
		buf = buf[:0]
		for i, v := range rows.Values() {
			buf = appendCSV(comma(buf, i), v, columns[i])
		}
		if _, err := out.Write(append(buf, '\n')); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return nil
}

func comma(buf []byte, i int) []byte {
	if i == 0 {
		return buf
	}
	return append(buf, ',')
}

func appendCSV(buf []byte, v any, c model.Column) []byte {
	switch {
	case v == nil:
		return buf
	case isNested(v):
		return appendField(buf, string(appendJSON(nil, v, c.Type)))
	}
	return appendField(buf, scalarText(v, c.Type))
}

func appendField(buf []byte, s string) []byte {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n") {
		return append(buf, s...)
	}
	buf = append(buf, '"')
	buf = append(buf, strings.ReplaceAll(s, `"`, `""`)...)
	return append(buf, '"')
}
