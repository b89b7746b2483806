// Package render turns the rows of a query into text: an aligned table for people; json, ndjson and csv for programs.
// It guarantees that the machine formats are exact and can be parsed back, that a table never sends a control character
// of the data to a terminal, and that memory doesn't grow with the number of rows. It knows nothing of SQL or sessions.
// docs/formats/output.md describes each format.
package render

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// Rows is a result that is read once, row by row. The result of Values (see model.List) is valid until the next call of
// Next.
type Rows interface {
	Columns() []model.Column
	Next() bool
	Values() []any
	Err() error
}

// Format of a result.
type Format string

const (
	Table   Format = "table"
	JSON    Format = "json"
	NDJSON  Format = "ndjson"
	CSV     Format = "csv"
	Parquet Format = "parquet" // written by the store, not here
)

// Formats in the order in which help lists them.
var Formats = []Format{Table, JSON, NDJSON, CSV, Parquet}

// Options of the presentation; the machine formats have none.
type Options struct {
	Width  int      // columns of the terminal; 0 if it isn't one: then nothing is shortened or rounded
	Plain  bool     // on a terminal: no dimmed text
	NoRows bool     // leave out the table's line "(12 rows)"
	Spare  []string // columns that a narrow terminal can do without, the most dispensable first
	Whole  string   // how to see what a narrow terminal left out; "" for the flags of memgauge query
}

// ParseFormat reads a format's name; no name means table.
func ParseFormat(name string) (Format, error) {
	if name == "" {
		return Table, nil
	}
	for _, f := range Formats {
		if strings.EqualFold(name, string(f)) {
			return f, nil
		}
	}
	return "", remedy.Add(fmt.Errorf("--format %q: unknown", name), "formats are table, json, ndjson, csv and parquet")
}

// FormatOf returns the format of a file by its name's ending.
func FormatOf(path string) (Format, bool) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".txt":
		return Table, true
	case ".json":
		return JSON, true
	case ".ndjson", ".jsonl":
		return NDJSON, true
	case ".csv":
		return CSV, true
	case ".parquet":
		return Parquet, true
	}
	return "", false
}

// buffered is how much text is collected for one write to a pipe or socket, whose own buffers have the same size.
const buffered = 64 << 10

// Write renders all rows. After an error w may have received a part of them.
func Write(w io.Writer, rows Rows, f Format, o Options) error {
	out := bufio.NewWriterSize(w, buffered)
	var err error
	switch f {
	case Table:
		err = writeTable(out, rows, o)
	case JSON:
		err = writeJSON(out, rows)
	case NDJSON:
		err = writeNDJSON(out, rows)
	case CSV:
		err = writeCSV(out, rows)
	default:
		return fmt.Errorf("write result: format %q can't be written as text", f)
	}
	if err == nil {
		err = rows.Err() // unchanged: it names its own operation
	}
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
