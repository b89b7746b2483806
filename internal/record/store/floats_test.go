package store

import (
	"math"
	"strings"
	"testing"
)

// TestFloats reads every type of number, NULL, more rows than a chunk has, and refuses what is none.
func TestFloats(t *testing.T) {
	db := open(t, Options{})
	const sql = `SELECT i::TINYINT, -i::SMALLINT, i::INTEGER, i << 40, i::UTINYINT, i::USMALLINT, i::UINTEGER,
 i::UBIGINT,
 (i / 4)::FLOAT, i / 8, i % 2 = 1, CASE WHEN i % 3 > 0 THEN i END FROM range(5000) r(n), (SELECT n % 100 AS i)`
	n := 0.0
	err := Floats(t.Context(), db, sql, func(v []float64) {
		i := math.Mod(n, 100)
		want := []float64{i, -i, i, i * (1 << 40), i, i, i, i, i / 4, i / 8, math.Mod(i, 2), i}
		if math.Mod(i, 3) == 0 {
			want[11] = math.NaN()
		}
		for c := range want {
			if v[c] != want[c] && !(math.IsNaN(v[c]) && math.IsNaN(want[c])) {
				t.Fatalf("row %v, column %d: %v, want %v", n, c, v[c], want[c])
			}
		}
		n++
	})
	if err != nil || n != 5000 {
		t.Fatalf("%v rows, %v", n, err)
	}
	for sql, want := range map[string]string{
		"SELECT 1, 'a' AS word":       `column "word" has type VARCHAR`,
		"SELECT sum(1::BIGINT) AS s":  `column "s" has type HUGEINT`,
		"SELECT 1 FROM nowhere":       "nowhere",
		"SELECT CAST('x' AS INTEGER)": "x",
	} {
		err := Floats(t.Context(), db, sql, func([]float64) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := Floats(t.Context(), db, "SELECT 1 WHERE false", func([]float64) { t.Error("a row") }); err != nil {
		t.Error(err)
	}
}
