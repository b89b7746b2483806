// Package doc owns what commands print that is neither rows of a table nor prose of their own: JSON documents, and
// listings as tables.
package doc

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/memgauge/memgauge/internal/base/units"
)

// JSONVersion is the schema_version of the documents in docs/cli-json.md.
const JSONVersion = 1

// WholeTables says how to see what a terminal has no room for.
const WholeTables = "nothing is left out with --json or in a pipe"

// Known is a text, nil for "".
func Known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// KnownCount is a count, nil where it is below zero: not known.
func KnownCount(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// WriteJSON is indented: what is short enough to be read is read.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// Size is a number of bytes as text.
func Size(n int64) string { return units.Bytes(n).String() }

// SignedSize is Size of what may lie below zero.
func SignedSize(n int64) string {
	if n < 0 {
		return "-" + Size(-n)
	}
	return Size(n)
}

// Plural is a count with its noun.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return units.Count(int64(n)) + " " + what + "s"
}

// SomeOf names at most so many of a list, and counts the others.
func SomeOf(list []string, most int) string {
	text := strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
