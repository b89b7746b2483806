package store

import (
	"context"
	"errors"
	"sync"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// Rows is the answer to a query, read as DuckDB makes it: a large one is never in memory as a whole. Until Close it
// keeps a read transaction open. Its methods are for one goroutine; the database may be closed meanwhile.
type Rows struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc // of ctx
	began   time.Time
	sql     string
	columns []model.Column
	stop    func() // ends the watch over ctx
	e       *engine
	conn    *conn
	gates   *gates
	mu      struct { // against engine.close
		sync.Mutex
		open  bool
		stmt  duck.PreparedStatement
		res   duck.Result
		dec   *decoder
		chunk duck.DataChunk
		next  int // row of the chunk that Next will read
		row   []any
		err   error
		done  bool
	}
}

// Query runs one reading statement in a read-only transaction. The parsed statement, not its text, decides whether it
// may run (see gate.go). When ctx ends, so does the statement, also between calls of Next.
func (db *DB) Query(ctx context.Context, sql string) (*Rows, error) {
	r, err := db.begin(ctx, sql)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	err = r.startLocked(sql)
	r.mu.Unlock()
	if err != nil {
		err = r.explain(err) // before Close, whose cancellation would become the reason
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Querier runs one reading statement: a DB, or any other source of a session's rows.
type Querier interface {
	Query(ctx context.Context, sql string) (*Rows, error)
}

// Each runs one reading statement and calls row for every row of its result.
func Each(ctx context.Context, from Querier, sql string, row func([]any)) error {
	rows, err := from.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		row(rows.Values())
	}
	return rows.Err()
}

// begin gives the query a connection and registers it, so that closing the database ends it.
func (db *DB) begin(ctx context.Context, sql string) (*Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	db.state.RLock()
	defer db.state.RUnlock()
	if db.state.closed {
		return nil, errClosed
	}
	c, err := db.state.e.connect()
	if err != nil {
		return nil, err
	}
	r := &Rows{began: time.Now(), sql: sql, e: db.state.e, conn: c, gates: &db.gates}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	var stuck func()
	if db.o.Stuck != nil {
		stuck = func() { db.o.Stuck(sql) }
	}
	r.stop = c.interruptOn(r.ctx, stuck)
	r.mu.open = true
	if err := r.e.add(r); err != nil {
		r.stop()
		r.cancel(nil)
		c.close()
		return nil, err
	}
	return r, nil
}

// startLocked gates, prepares and starts the statement.
func (r *Rows) startLocked(sql string) error {
	r.conn.enter()
	defer r.conn.leave()
	stmt, _, err := r.prepareLocked(sql)
	if err != nil {
		return err
	}
	r.mu.stmt = stmt
	var pending duck.PendingResult
	defer duck.DestroyPending(&pending)
	if duck.PendingPreparedStreaming(stmt, &pending) == duck.StateError {
		return nativeError(duck.ErrorTypeInvalid, duck.PendingError(pending), sql)
	}
	if duck.ExecutePending(pending, &r.mu.res) == duck.StateError {
		return nativeError(duck.ResultErrorType(&r.mu.res), duck.ResultError(&r.mu.res), sql)
	}
	r.mu.dec = newDecoder(&r.mu.res)
	r.columns = r.mu.dec.columns
	return nil
}

// prepareLocked has the gate check the statement and prepares the result, in a read-only transaction. The transaction
// is a second check against writing, and the type of the prepared statement a third.
func (r *Rows) prepareLocked(sql string) (stmt duck.PreparedStatement, text string, err error) {
	if text, err = r.gates.pass(r.conn, sql); err != nil {
		return stmt, "", err
	}
	if err := r.conn.exec("BEGIN TRANSACTION READ ONLY"); err != nil {
		return stmt, "", err
	}
	if duck.Prepare(r.conn.c, text, &stmt) == duck.StateError {
		err = nativeError(duck.ErrorTypeInvalid, duck.PrepareError(stmt), sql)
	} else {
		err = readingOnly(stmt, sql)
	}
	if err != nil {
		duck.DestroyPrepare(&stmt)
	}
	return stmt, text, err
}

func readingOnly(stmt duck.PreparedStatement, sql string) error {
	switch duck.PreparedStatementType(stmt) {
	case duck.StatementTypeSelect, duck.StatementTypeExplain:
	default:
		return refusal(sql)
	}
	if duck.NParams(stmt) > 0 {
		return &Error{Msg: "the statement has parameters ($1 or ?), and there is nothing to fill them with"}
	}
	return nil
}

// Columns are the names and types, in order.
func (r *Rows) Columns() []model.Column { return r.columns }

// Next goes to the next row; false at the end and on an error.
func (r *Rows) Next() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.mu.done || r.mu.err != nil {
			return false
		}
		if r.mu.chunk.Ptr != nil && r.mu.next < r.mu.dec.size {
			r.mu.row, r.mu.err = r.mu.dec.row(r.mu.next)
			r.mu.next++
			return r.mu.err == nil
		}
		r.fetchLocked()
	}
}

// fetchLocked gets the next chunk, or sets done or err.
func (r *Rows) fetchLocked() {
	duck.DestroyDataChunk(&r.mu.chunk)
	r.mu.next = 0
	if r.ctx.Err() != nil {
		r.mu.err = context.Cause(r.ctx)
		return
	}
	r.conn.enter()
	r.mu.chunk = duck.FetchChunk(r.mu.res)
	r.conn.leave()
	if r.mu.chunk.Ptr != nil {
		r.mu.dec.load(r.mu.chunk)
		return
	}
	if msg := duck.ResultError(&r.mu.res); msg != "" {
		r.mu.err = r.explain(nativeError(duck.ResultErrorType(&r.mu.res), msg, r.sql))
		return
	}
	r.mu.done = true
}

// explain replaces the error of an interrupted query by the reason for the interrupt.
func (r *Rows) explain(err error) error {
	if cause := context.Cause(r.ctx); cause != nil {
		return cause
	}
	return err
}

// Values returns the row's values in the types that package model lists. Intervals, UUIDs, times of day, bit strings
// and infinite dates are texts. No value loses a digit. The caller owns the slice.
func (r *Rows) Values() []any { return r.mu.row }

// Err returns the error that ended the rows early, or nil.
func (r *Rows) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.err
}

// Close ends the query; it may be called twice.
func (r *Rows) Close() error {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseLocked()
	return nil
}

// abort ends the query from another goroutine.
func (r *Rows) abort(cause error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	stop := r.conn.interruptOn(ended, nil) // until whoever is inside a call has come out of it
	r.mu.Lock()
	stop()
	if r.mu.err == nil && !r.mu.done {
		r.mu.err = cause
	}
	r.mu.Unlock()
	_ = r.Close()
}

// yield cancels the query so that the database can free what it holds. If no call of DuckDB is running for it, its
// resources are released at once. Otherwise that call ends soon, and the next yield or the reader releases them.
func (r *Rows) yield(cause error) {
	r.cancel(cause)
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	r.stop()
	if r.mu.err == nil && !r.mu.done {
		r.mu.err = cause
	}
	r.releaseLocked()
}

func (r *Rows) releaseLocked() {
	if !r.mu.open {
		return
	}
	if r.mu.err == nil && !r.mu.done {
		r.mu.err = errors.New("the rows were closed")
	}
	duck.DestroyDataChunk(&r.mu.chunk)
	if r.mu.dec != nil {
		r.mu.dec.close()
	}
	duck.DestroyResult(&r.mu.res)
	duck.DestroyPrepare(&r.mu.stmt)
	r.mu.chunk = duck.DataChunk{}
	r.conn.close() // rolls the transaction back
	r.cancel(nil)
	r.mu.open = false
	r.e.remove(r)
}
