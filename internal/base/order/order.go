// Package order sorts lists as package slices does. That is compiled anew for each type of element: 20 kB of program
// for a list of findings, say. There are a hundred such types, most with a dozen rows. Here the sorting itself is
// package sort's, of which there is one. It takes twice the time, so what sorts millions of rows uses package slices.
package order

import "sort"

// By sorts rows by cmp, as slices.SortFunc does: in which order those stay that are equal is not said.
func By[S ~[]E, E any](rows S, cmp func(a, b E) int) { sort.Sort(list[E]{rows, cmp}) }

// Stable sorts rows by cmp, as slices.SortStableFunc does: those that are equal stay in their order.
func Stable[S ~[]E, E any](rows S, cmp func(a, b E) int) { sort.Stable(list[E]{rows, cmp}) }

// list is what package sort takes.
type list[E any] struct {
	rows []E
	cmp  func(a, b E) int
}

func (l list[E]) Len() int           { return len(l.rows) }
func (l list[E]) Less(i, j int) bool { return l.cmp(l.rows[i], l.rows[j]) < 0 }
func (l list[E]) Swap(i, j int)      { l.rows[i], l.rows[j] = l.rows[j], l.rows[i] }
