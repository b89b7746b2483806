package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
)

// rows writes numbers until somebody has enough, or to an end with an error.
type rows struct {
	last   int
	err    error
	called func(context.Context)
}

func (r rows) Query(ctx context.Context, _ api.QueryRequest, w io.Writer) error {
	defer r.called(ctx)
	for i := range r.last {
		if _, err := fmt.Fprintf(w, "{\"n\": %d}\n", i); err != nil {
			return fmt.Errorf("query: %w", err)
		}
	}
	return r.err
}

// TestEach: rows come one by one; the query has ended, or been called off, when Each returns.
func TestEach(t *testing.T) {
	enough, failed := errors.New("enough"), errors.New("the database ended")
	for name, c := range map[string]struct {
		db   rows
		stop int
		n    int
		err  error
	}{
		"all":      {rows{last: 10}, -1, 10, nil},
		"none":     {rows{}, -1, 0, nil},
		"enough":   {rows{last: 1 << 30}, 7, 7, enough},
		"an error": {rows{last: 3, err: failed}, -1, 3, failed},
	} {
		t.Run(name, func(t *testing.T) {
			over, n := false, 0
			c.db.called = func(ctx context.Context) { over = true }
			type row struct{ N int }
			err := api.Each(t.Context(), c.db, "FROM x", func(r row) error {
				if r.N != n {
					t.Errorf("row %d is %d", n, r.N)
				}
				if n == c.stop {
					return enough
				}
				n++
				return nil
			})
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || n != c.n || !over {
				t.Errorf("%d rows, %v, over %v; want %d, %v", n, err, over, c.n, c.err)
			}
		})
	}
}
