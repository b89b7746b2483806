package page

import (
	"cmp"
	"slices"
)

// sortBy puts the largest first.
func sortBy(list []Grower, key func(Grower) int64) {
	slices.SortStableFunc(list, func(a, b Grower) int { return cmp.Compare(key(b), key(a)) })
}
