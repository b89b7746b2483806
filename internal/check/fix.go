package check

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/rogpeppe/go-internal/diff"
)

// Apply makes the edits of findings in a text. Of two that overlap the first is made; applied counts the findings that
// were mended. Notebooks are left alone: their text is not the file's.
func Apply(data []byte, findings []Finding) (out []byte, applied int) {
	var edits []Edit
	for _, f := range findings {
		if f.Fix == nil || f.Cell > 0 {
			continue
		}
		free := true
		for _, e := range f.Fix {
			for _, have := range edits {
				free = free && (e.End <= have.Start && e.Start < have.Start || e.Start >= have.End && e != have)
			}
			free = free && e.Start >= 0 && e.Start <= e.End && e.End <= len(data)
		}
		if free {
			edits = append(edits, f.Fix...)
			applied++
		}
	}
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(a.Start, b.Start) })
	var b bytes.Buffer
	at := 0
	for _, e := range edits {
		b.Write(data[at:e.Start])
		b.WriteString(e.New)
		at = e.End
	}
	b.Write(data[at:])
	return b.Bytes(), applied
}

// Diff is what a fix changes, in the unified form.
func Diff(path string, before, after []byte) string {
	return string(diff.Diff(path, before, path, after))
}
