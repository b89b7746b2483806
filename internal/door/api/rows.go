package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/memgauge/memgauge/internal/door/questions"
)

// Querier answers SQL: it runs a statement and writes its result to w. If that fails, what it has written is not a
// valid answer. A w with a method Reset, which forgets what was written, lets an answer whose collector has ended be
// given anew by its successor.
type Querier interface {
	Query(ctx context.Context, q QueryRequest, w io.Writer) error
}

// Rows runs a statement and decodes each row into a T by the names of its columns; a column that T lacks is ignored.
// The list is never nil. It is held in memory as a whole, so the statement must bound it. A stranger may not
// keep to that, so the answer has the bounds of a document too.
func Rows[T any](ctx context.Context, db Querier, sql string) ([]T, error) {
	rows := []T{}
	err := decodeAll(ctx, db, sql, reflect.TypeFor[T]().Size(), func(decode func(any) error) error {
		var row T
		err := decode(&row)
		if err == nil {
			rows = append(rows, row)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// decodeAll is what Rows does that is the same for all types of row: it calls next until there is no more. A row takes
// size bytes.
func decodeAll(ctx context.Context, db Querier, sql string, size uintptr,
	next func(decode func(any) error) error,
) error {
	var out document
	if err := db.Query(ctx, QueryRequest{SQL: sql, Format: "ndjson"}, &out); err != nil {
		return fmt.Errorf("read the session: %w", err)
	}
	dec := json.NewDecoder(&out.text)
	for n := int64(0); ; n++ {
		if n*int64(size)+rowFactor*dec.InputOffset() > maxMade {
			return fmt.Errorf("read the session's answer: %w: it would take more than %d bytes", ErrLarge, maxMade)
		}
		switch err := next(dec.Decode); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the session's answer: %w", err)
		}
	}
}

// rowFactor is how many bytes a byte of a row becomes beside the row itself: a text "" has 16, a number in a list 8.
const rowFactor = 4

// document takes an answer, as long as it is within maxReply.
type document struct{ text bytes.Buffer }

// Write takes more of it.
func (d *document) Write(b []byte) (int, error) {
	if int64(d.text.Len()+len(b)) > maxReply {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrLarge, maxReply)
	}
	return d.text.Write(b)
}

// Reset forgets it, for an answer that is given anew.
func (d *document) Reset() { d.text.Reset() }

// Ask is Rows of a question, which knows its rows' type.
func Ask[T any](ctx context.Context, db Querier, q questions.Of[T]) ([]T, error) {
	return Rows[T](ctx, db, string(q))
}

// Each is Rows for a result of any length: it calls take for each row, and an error from take ends the query.
func Each[T any](ctx context.Context, db Querier, sql string, take func(T) error) error {
	return Through(ctx, func(ctx context.Context, w io.Writer) error {
		err := db.Query(ctx, QueryRequest{SQL: sql, Format: "ndjson"}, w)
		if err != nil {
			err = fmt.Errorf("read the session: %w", err)
		}
		return err
	}, func(r io.Reader) error { return DecodeEach(r, take) })
}

// Through has an answer read while it is written, so that nobody holds it whole. A reader that fails ends the question.
// The error is the question's own where the reader has met no other.
func Through(ctx context.Context, ask func(context.Context, io.Writer) error, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := ask(ctx, w)
		w.CloseWithError(err) // nil is the end
		ended <- err
	}()
	err := read(r)
	if err != nil {
		cancel()
	}
	r.CloseWithError(err) // whoever still writes
	if asked := <-ended; asked != nil && (err == nil || errors.Is(err, asked)) {
		return asked
	}
	return err
}

// DecodeEach calls take for each row of an answer in lines of JSON.
func DecodeEach[T any](from io.Reader, take func(T) error) error {
	left := &io.LimitedReader{R: from}
	for dec := json.NewDecoder(left); ; {
		left.N = maxReply // for each row
		var row T
		switch err := dec.Decode(&row); {
		case err != nil && left.N <= 0:
			return fmt.Errorf("read the session's answer: %w: a row of more than %d bytes", ErrLarge, maxReply)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the session's answer: %w", err)
		}
		if err := take(row); err != nil {
			return err
		}
	}
}

// Into returns Rows as a function that decodes into a pointer to a slice: package picture's Query.
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
		if _, err := Unmarshal(text, into, maxMade); err != nil {
			return fmt.Errorf("read the session's answer: %w", err)
		}
		return nil
	}
}
