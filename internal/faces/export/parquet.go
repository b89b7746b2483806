package export

import (
	"context"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
)

// Parquet writes every table that holds rows, each into a file of its name.
func Parquet(ctx context.Context, s api.Session, create Create) (notes []string, err error) {
	tables, err := s.Tables(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if t.Rows < 0 {
			continue // made at the moment of the SELECT
		}
		name := t.Schema + "." + t.Name
		out, err := create(rootdir.Element(name) + ".parquet")
		if err != nil {
			return nil, err
		}
		quoted := `"` + strings.ReplaceAll(t.Schema, `"`, `""`) + `"."` + strings.ReplaceAll(t.Name, `"`, `""`) + `"`
		q := api.QueryRequest{SQL: questions.Whole(quoted), Format: "parquet"}
		if err := s.Query(ctx, q, out); err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
	}
	return nil, nil
}
