package lake

import (
	"bufio"
	"context"
	commas "encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/memgauge/memgauge/internal/api"
)

// each runs a statement of ours and calls row for every row of its result. The values are texts that text
// reads; the slice is row's until it returns.
func (t *Tables) each(ctx context.Context, sql string, row func(v []string)) error {
	r, w := io.Pipe()
	asked := make(chan error, 1)
	go func() {
		out := bufio.NewWriter(w)
		err := t.Query(ctx, api.QueryRequest{SQL: sql, Format: "csv", Note: t.Note}, out)
		if err == nil {
			err = out.Flush()
		}
		w.CloseWithError(err)
		asked <- err
	}()
	read := readEach(r, row)
	r.CloseWithError(errors.New("the answer is read no further"))
	err := <-asked
	t.Note = nil // one question says it
	if err != nil && (read == nil || errors.Is(read, err)) {
		return err
	}
	return read
}

func readEach(from io.Reader, row func(v []string)) error {
	in := commas.NewReader(bufio.NewReader(from))
	in.ReuseRecord = true // a value's bytes lie in one text with those of its row
	for first := true; ; first = false {
		v, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if !first { // the names
			row(v)
		}
	}
}

// text keeps a value beyond its row, and the row not with it.
func text(v string) string { return strings.Clone(v) }
