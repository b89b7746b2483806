package store

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/allowed"
)

// mayCall refuses a function that the list doesn't allow in this place.
func mayCall(at allowed.Place, name string) error {
	name = lowerASCII(name)
	known, ok := allowed.Names()[at][name]
	switch {
	case known.Allowed:
		return nil
	case ok:
		return remedy.Add(&Error{Msg: "the function " + name + " is not available: it " + known.Why, Kind: ErrRefused},
			filesHint)
	}
	hint := "`FROM duckdb_functions()` lists what DuckDB has"
	if near := nearest(at, name); near != "" {
		hint = "did you mean " + near + "?"
	}
	return remedy.Add(&Error{Msg: fmt.Sprintf("there is no function %q that a question may call", name),
		Kind: ErrRefused}, hint)
}

// longestName is longer than any function's, in bytes: comparing takes the product of the lengths.
const longestName = 60

// nearest returns the allowed function whose name is less than a third of its length away; "" if there is none.
func nearest(at allowed.Place, name string) (nearest string) {
	if len(name) > longestName {
		return ""
	}
	least := 1.0 / 3
	for other, known := range allowed.Names()[at] {
		far := float64(distance(name, other)) / float64(max(len(name), 1))
		if known.Allowed && (far < least || far == least && nearest != "" && other < nearest) {
			nearest, least = other, far
		}
	}
	return nearest
}

// lowerASCII is how DuckDB's catalog compares names: letters beyond ASCII are different ones.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
