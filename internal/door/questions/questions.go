// Package questions owns what a session's tables mean: each figure that more than one reader needs is one statement,
// with the type of its rows and a test. It has SQL's words and no database: package api runs the statements. Commands,
// screens, the page and exporters have no SQL of their own.
package questions

import "strings"

// Of is a statement whose rows are of type Row, by the names of the columns.
type Of[Row any] string

// Quoted is a text as SQL writes it.
func Quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
