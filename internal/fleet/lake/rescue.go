package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/record/store"
)

// A flushed file has rows of many nodes, each acknowledged. What one node's rows make of it must cost the others none:
// before it is set aside, they are written anew.

// rowNumber is the column of a row's number, which merged files lack.
var rowNumber = store.FileColumn{Name: rowColumn, Type: "BIGINT"}

// remains is what can be had of a bad file.
type remains struct {
	rows    ledger
	where   string
	without []string // columns
}

// rescue writes the rows of a bad file of several nodes anew, as far as they can be read: without the columns that
// can't, or each node's by itself where all together take too much. The rows are there twice until the file is set
// aside; a merge takes each once.
func (w *Writer) rescue(ctx context.Context, f source, columns []store.FileColumn, bad error) error {
	p, _ := parse(f.name)
	if p.kind != rawTier {
		return nil
	}
	rows, err := rowsOf(f.name, f.file)
	if err != nil {
		return nil //nolint:nilerr // it is none of ours
	}
	for _, r := range remainsOf(rows, bad) {
		text, err := json.Marshal(r.rows)
		if err != nil {
			return err
		}
		m := store.Merge{Columns: columns, Order: []string{sessionColumn, rowColumn}, RowGroup: rowGroup,
			MemoryLimit: w.o.Memory, Without: r.without, Key: rowsKey, Value: string(text)}
		f.where = r.where
		if err := w.mergeApart(ctx, m, []source{f}); err != nil {
			if ctx.Err() != nil {
				return err
			}
			w.note(fmt.Sprintf("%s: rows of it are lost: %.200v", f.name, err))
			continue
		}
		name := fmt.Sprintf("%s/%d-%d-%d.parquet", path.Dir(f.name), time.Now().UnixNano(), os.Getpid(), w.files.Add(1))
		if err := w.place.put(ctx, name, mergedName); err != nil {
			return err
		}
	}
	return nil
}

// remainsOf says what to try: nothing for a file of one node, whose own it is.
func remainsOf(rows ledger, bad error) (out []remains) {
	by := map[string]ledger{}
	for stream, list := range rows {
		node := nodeOf(stream)
		if by[node] == nil {
			by[node] = ledger{}
		}
		by[node][stream] = list
	}
	var file badFile
	whose := func(name string) bool { return slices.Contains([]string{"node", sessionColumn, rowColumn}, name) }
	switch {
	case len(by) < 2:
	case errors.Is(bad, errBeyond):
		for _, of := range by {
			out = append(out, remains{rows: of, where: where(of)})
		}
	case errors.As(bad, &file) && len(file.columns) > 0 && !slices.ContainsFunc(file.columns, whose):
		out = append(out, remains{rows: rows, without: file.columns})
	}
	return out
}
