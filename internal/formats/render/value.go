package render

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// scalarText is the text of a value that is no list, struct or map. It is the same in csv, in a table and (quoted where
// JSON requires it) in json.
func scalarText(v any, columnType string) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		return timeText(v, columnType)
	case []byte:
		return blobText(v)
	}
	if text, ok := numberText(v); ok {
		return text
	}
	return fmt.Sprint(v) // an unexpected type; better shown than lost
}

// numberText is exact: integers of any size, decimals with their trailing zeros, floats in the fewest digits that read
// back as the same number.
func numberText(v any) (string, bool) {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return floatText(v, 64), true
	case float32:
		return floatText(float64(v), 32), true
	case *big.Int:
		return v.String(), true
	case model.Decimal:
		return decimalText(v), true
	case int, int8, int16, int32, uint, uint8, uint16, uint32:
		return fmt.Sprint(v), true
	}
	return "", false
}

// isFloatWord recognises the three floats that are no JSON numbers.
func isFloatWord(text string) bool { return text == "NaN" || text == "Infinity" || text == "-Infinity" }

// floatText always shows that the number is a float ("2.0"), and uses an exponent where digits would only be padding.
// "NaN" and "Infinity" are spelled as PostgreSQL and DuckDB read them.
func floatText(x float64, bits int) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "Infinity"
	case math.IsInf(x, -1):
		return "-Infinity"
	case a != 0 && (a < 1e-5 || a >= 1e17): // 17 digits are the most that a float64 can distinguish
		return strconv.FormatFloat(x, 'e', -1, bits)
	}
	s := strconv.FormatFloat(x, 'f', -1, bits)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// roundedText is for people: six decimals, and six significant digits where these would mostly be zeros.
func roundedText(x float64, bits int) string {
	a := math.Abs(x)
	if math.IsNaN(x) || math.IsInf(x, 0) || a >= 1e17 {
		return floatText(x, bits)
	}
	format := byte('f')
	if a != 0 && a < 1e-3 {
		format = 'g'
	}
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, format, 6, bits), 64)
	if err != nil {
		return floatText(x, bits)
	}
	return floatText(y, 64)
}

func decimalText(d model.Decimal) string {
	if d.Unscaled == nil {
		return "0"
	}
	s := d.Unscaled.String()
	if d.Scale == 0 {
		return s
	}
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	if missing := int(d.Scale) + 1 - len(s); missing > 0 {
		s = strings.Repeat("0", missing) + s
	}
	point := len(s) - int(d.Scale)
	return sign + s[:point] + "." + s[point:]
}

// timeText is ISO 8601 with microseconds, in UTC; nanoseconds only where there are some. DuckDB reads all of it back.
func timeText(t time.Time, columnType string) string {
	t = t.UTC()
	switch columnType {
	case "DATE":
		return t.Format("2006-01-02")
	case "TIME":
		return t.Format("15:04:05.000000")
	}
	if t.Nanosecond()%1000 != 0 {
		return t.Format("2006-01-02T15:04:05.000000000Z")
	}
	return t.Format("2006-01-02T15:04:05.000000Z")
}

// blobText is DuckDB's own text of a BLOB, which casts back: printable ASCII, everything else as \xHH.
func blobText(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\\' || c == '\'' || c == '"' {
			fmt.Fprintf(&s, `\x%02X`, c)
		} else {
			s.WriteByte(c)
		}
	}
	return s.String()
}

// isNested recognises values that have parts; their text is JSON in every format.
func isNested(v any) bool {
	switch v.(type) {
	case model.List, model.Struct, model.Map:
		return true
	}
	return false
}

// isNumeric recognises a column whose values are right-aligned.
func isNumeric(columnType string) bool {
	switch t, _, _ := strings.Cut(columnType, "("); t {
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
		"UHUGEINT",
		"BIGNUM", "DECIMAL", "FLOAT", "DOUBLE":
		return !strings.HasSuffix(columnType, "]")
	}
	return false
}

// isWhole recognises a column whose values mean something else when a part is missing.
func isWhole(columnType string) bool {
	switch columnType {
	case "DATE", "TIME", "BOOLEAN":
		return true
	}
	return isNumeric(columnType) || strings.HasPrefix(columnType, "TIMESTAMP") && !strings.HasSuffix(columnType, "]")
}
