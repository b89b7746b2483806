package order

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Both give what package slices gives.
func TestAsSlices(t *testing.T) {
	type row struct{ key, place int }
	byKey := func(a, b row) int { return cmp.Compare(a.key, b.key) }
	whole := func(a, b row) int { return cmp.Or(byKey(a, b), cmp.Compare(a.place, b.place)) }
	for n := range 200 {
		rows := make([]row, n)
		for i := range rows {
			rows[i] = row{rand.IntN(1 + n/3), i}
		}
		stable, want := slices.Clone(rows), slices.Clone(rows)
		Stable(stable, byKey)
		if slices.SortStableFunc(want, byKey); !slices.Equal(stable, want) {
			t.Fatalf("stable: %v, want %v", stable, want)
		}
		rand.Shuffle(n, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		if By(rows, whole); !slices.Equal(rows, want) {
			t.Fatalf("by: %v, want %v", rows, want)
		}
	}
}
