package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Querier answers SQL: a collector, or the database of a finished session. What it writes before it fails is not an
// answer.
type Querier interface {
	Query(ctx context.Context, q QueryRequest, w io.Writer) error
}

// Rows runs a statement and decodes each row into a T by the names of its columns; a column that T lacks is ignored.
// The list is never nil. All of it is held in memory: the statement says how much that may be.
func Rows[T any](ctx context.Context, db Querier, sql string) ([]T, error) {
	var out bytes.Buffer
	if err := db.Query(ctx, QueryRequest{SQL: sql, Format: "ndjson"}, &out); err != nil {
		return nil, fmt.Errorf("read the session: %w", err)
	}
	rows := []T{}
	for dec := json.NewDecoder(&out); ; {
		var row T
		err := dec.Decode(&row)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the session's answer: %w", err)
		}
		rows = append(rows, row)
	}
}

// Into is Rows for who decodes into a slice of its own type: what package picture calls a Query.
func Into(db Querier) func(ctx context.Context, sql string, into any) error {
	return func(ctx context.Context, sql string, into any) error {
		list, err := Rows[json.RawMessage](ctx, db, sql)
		if err != nil {
			return err
		}
		text, err := json.Marshal(list)
		if err != nil {
			return fmt.Errorf("read the session's answer: %w", err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			return fmt.Errorf("read the session's answer: %w", err)
		}
		return nil
	}
}
