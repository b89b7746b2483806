package render

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// writeJSON writes one array with one object in each line, so that a truncated file shows where it was cut.
func writeJSON(out *bufio.Writer, rows Rows) error {
	keys := jsonKeys(rows.Columns())
	buf := []byte("[")
	separator := "\n  "
	n := 0
	for ; rows.Next(); n++ {
		buf = append(buf, separator...)
		buf = appendObject(buf, keys, rows)
		separator = ",\n  "
		if _, err := out.Write(buf); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
		buf = buf[:0]
	}
	if n > 0 {
		buf = append(buf, '\n')
	}
	if _, err := out.Write(append(buf, ']', '\n')); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// writeNDJSON writes one object in each line.
func writeNDJSON(out *bufio.Writer, rows Rows) error {
	keys := jsonKeys(rows.Columns())
	var buf []byte
	for rows.Next() {
		buf = appendObject(buf[:0], keys, rows)
		if _, err := out.Write(append(buf, '\n')); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return nil
}

type jsonKey struct {
	text string // quoted, with the colon
	typ  string
}

// jsonKeys makes names unique, since a reader keeps only one of two equal keys: the second "a" becomes "a_1".
func jsonKeys(columns []model.Column) []jsonKey {
	taken := map[string]bool{}
	for _, c := range columns {
		taken[c.Name] = true
	}
	seen := map[string]bool{}
	keys := make([]jsonKey, len(columns))
	for i, c := range columns {
		name := c.Name
		for n := 1; seen[name] || n > 1 && taken[name]; n++ {
			name = c.Name + "_" + strconv.Itoa(n)
		}
		seen[name] = true
		keys[i] = jsonKey{string(append(appendString(nil, name), ':')), c.Type}
	}
	return keys
}

func appendObject(buf []byte, keys []jsonKey, rows Rows) []byte {
	buf = append(buf, '{')
	for i, v := range rows.Values() {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, keys[i].text...)
		buf = appendJSON(buf, v, keys[i].typ)
	}
	return append(buf, '}')
}

// appendJSON keeps every number exact; a reader that has only float64 rounds it itself.
func appendJSON(buf []byte, v any, columnType string) []byte {
	switch v := v.(type) {
	case nil:
		return append(buf, "null"...)
	case bool:
		return strconv.AppendBool(buf, v)
	case model.List:
		return appendList(buf, v, elementType(columnType))
	case model.Struct:
		return appendStruct(buf, v)
	case model.Map:
		return appendMap(buf, v)
	}
	if text, ok := numberText(v); ok && !isFloatWord(text) {
		return append(buf, text...)
	}
	return appendString(buf, scalarText(v, columnType))
}

// elementType is DATE for DATE[] and DATE[3]: a list's dates must have the same form as a column's.
func elementType(listType string) string {
	i := strings.LastIndexByte(listType, '[')
	return listType[:max(i, 0)]
}

func appendList(buf []byte, list model.List, element string) []byte {
	buf = append(buf, '[')
	for i, v := range list {
		if i > 0 {
			buf = append(buf, ", "...)
		}
		buf = appendJSON(buf, v, element)
	}
	return append(buf, ']')
}

func appendStruct(buf []byte, members model.Struct) []byte {
	buf = append(buf, '{')
	for i, m := range members {
		if i > 0 {
			buf = append(buf, ", "...)
		}
		buf = append(appendString(buf, m.Name), ": "...)
		buf = appendJSON(buf, m.Value, "")
	}
	return append(buf, '}')
}

// appendMap makes an object. Its keys must be strings in JSON, so a key of another type is written as its text.
func appendMap(buf []byte, entries model.Map) []byte {
	buf = append(buf, '{')
	for i, e := range entries {
		if i > 0 {
			buf = append(buf, ", "...)
		}
		key := "null"
		if isNested(e.Key) {
			key = string(appendJSON(nil, e.Key, ""))
		} else if e.Key != nil {
			key = scalarText(e.Key, "")
		}
		buf = append(appendString(buf, key), ": "...)
		buf = appendJSON(buf, e.Value, "")
	}
	return append(buf, '}')
}

const hex = "0123456789abcdef"

// appendString quotes s. Characters that could control a terminal are escaped too, which JSON allows and no reader
// notices. Bytes that are no UTF-8 become U+FFFD, since JSON can't express them.
func appendString(buf []byte, s string) []byte {
	buf = append(buf, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f {
			if c == '"' || c == '\\' {
				buf = append(buf, '\\')
			}
			buf = append(buf, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			buf = append(buf, "\uFFFD"...)
		case r == '\n':
			buf = append(buf, `\n`...)
		case r == '\t':
			buf = append(buf, `\t`...)
		case r == '\r':
			buf = append(buf, `\r`...)
		case plain.Steers(r): // all of them are in the first plane
			buf = append(buf, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			buf = append(buf, s[i:i+size]...)
		}
		i += size
	}
	return append(buf, '"')
}
