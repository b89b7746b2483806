package lake

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/model"
)

// Handler answers requests of package api about a lake: queries and tables, whatever else the rights are. It opens the
// lake for each of them, as it is then.
func Handler(c Choice, rights api.Rights) http.Handler {
	return api.Handler(asked{choice: c}, rights&api.MayQuery, nil)
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
