// Package order sorts lists as package slices does. That is compiled anew for each type of element: 20 kB of program
// for a list of findings, say. There are a hundred such types, most with a dozen rows. Here the sorting itself is
// package sort's, of which there is one. It takes up to half more time, so what sorts millions of rows uses package
// slices, and so does a list of pointers or integers, which share one compilation.
package order

import "sort"

// By sorts rows by cmp, as slices.SortFunc does: in which order those stay that are equal is not said.
func By[S ~[]E, E any](rows S, cmp func(a, b E) int) {
	sort.Slice(rows, func(i, j int) bool { return cmp(rows[i], rows[j]) < 0 })
}

// Stable sorts rows by cmp, as slices.SortStableFunc does: those that are equal stay in their order.
func Stable[S ~[]E, E any](rows S, cmp func(a, b E) int) {
	sort.SliceStable(rows, func(i, j int) bool { return cmp(rows[i], rows[j]) < 0 })
}
