package lake

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/model"
)

// Handler answers requests of package api about a lake: queries and tables. It opens the lake for each of them, as it
// is then.
func Handler(c Choice) http.Handler {
	all := api.Handler(asked{choice: c}, func() {})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/query" && r.URL.Path != "/v1/tables" {
			http.Error(w, "a lake answers query and tables alone", http.StatusNotFound)
			return
		}
		all.ServeHTTP(w, r)
	})
}

// asked is a lake as the session of a handler that lets nothing else pass.
type asked struct {
	api.Session
	choice Choice
}

// Query opens the tables that the statement names.
func (a asked) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	if err := q.Check(); err != nil {
		return err
	}
	a.choice.SQL = q.SQL
	t, err := Open(ctx, a.choice)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	defer t.Close()
	return t.Query(ctx, q, w)
}

// Tables describes those of the lake.
func (a asked) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	t, err := Open(ctx, a.choice)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.Tables(ctx, all)
}
