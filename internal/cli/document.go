package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/memgauge/memgauge/internal/units"
)

// jsonVersion is the schema_version of the documents in docs/cli-json.md.
const jsonVersion = 1

// wholeTables says how to see what a terminal has no room for.
const wholeTables = "nothing is left out with --json or in a pipe"

// known is a text, nil for "".
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func knownCount(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// writeJSON is indented: what is short enough to be read is read.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// size is a number of bytes as text.
func size(n int64) string { return units.Bytes(n).String() }

// signedSize is size of what may lie below zero.
func signedSize(n int64) string {
	if n < 0 {
		return "-" + size(-n)
	}
	return size(n)
}

// plural is a count with its noun.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return units.Count(int64(n)) + " " + what + "s"
}
