package store

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/remedy"
)

// Rows is the answer to a question, read as DuckDB makes it: a large one is never in memory as a whole. Until Close it
// keeps a read transaction open. Its methods are for one goroutine; the database may be closed meanwhile.
type Rows struct {
	ctx     context.Context
	sql     string
	columns []model.Column
	stop    func() // ends the watch over ctx
	e       *engine
	conn    *conn
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

// Query runs one reading statement. What kind a statement is DuckDB says, not its text, and it runs in a read-only
// transaction. When ctx ends, so does the statement, also between calls of Next.
func (db *DB) Query(ctx context.Context, sql string) (*Rows, error) {
	r, err := db.begin(ctx, sql)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	err = r.startLocked(sql)
	r.mu.Unlock()
	if err != nil {
		_ = r.Close()
		return nil, r.explain(err)
	}
	return r, nil
}

// begin gives the question a connection and registers it, so that closing the database ends it.
func (db *DB) begin(ctx context.Context, sql string) (*Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f := dangerous.FindStringSubmatch(sql); f != nil {
		return nil, &Error{Msg: "the function " + strings.ToLower(f[1]) + " is not available", Kind: ErrRefused}
	}
	if strings.ContainsRune(sql, 0) { // a C string would end there, and the rest would not be looked at
		return nil, &Error{Msg: "the statement contains a NUL character"}
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
	r := &Rows{ctx: ctx, sql: sql, e: db.state.e, conn: c}
	r.mu.open = true
	if err := r.e.add(r); err != nil {
		c.close()
		return nil, err
	}
	r.stop = c.interruptOn(ctx)
	return r, nil
}

// startLocked prepares, checks and starts the statement.
func (r *Rows) startLocked(sql string) error {
	if err := r.conn.exec("BEGIN TRANSACTION READ ONLY"); err != nil {
		return err
	}
	stmt, err := prepareReading(r.conn, sql)
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

// prepareReading prepares sql if it is exactly one statement that only reads.
func prepareReading(c *conn, sql string) (stmt duck.PreparedStatement, err error) {
	var list duck.ExtractedStatements
	n := duck.ExtractStatements(c.c, sql, &list)
	defer duck.DestroyExtracted(&list)
	switch {
	case n == 0:
		if msg := duck.ExtractStatementsError(list); msg != "" {
			return stmt, nativeError(duck.ErrorTypeParser, msg, sql)
		}
		return stmt, &Error{Msg: "there is no statement"}
	case n > 1 && firstWord(sql) == "PIVOT": // DuckDB makes two statements of it, and the first one writes
		return stmt, remedy.Add(&Error{Msg: "PIVOT without its values is not run", Kind: ErrRefused}, "name them: PIVOT … ON column IN (…)")
	case n > 1:
		return stmt, remedy.Add(&Error{Msg: "several statements in one question", Kind: ErrRefused}, "ask them one by one")
	}
	if duck.PrepareExtractedStatement(c.c, list, 0, &stmt) == duck.StateError {
		err = nativeError(duck.ErrorTypeInvalid, duck.PrepareError(stmt), sql)
		duck.DestroyPrepare(&stmt)
		if word := firstWord(sql); writing[word] { // DuckDB may stumble over a table before it says what it is
			err = refused(word)
		}
		return stmt, err
	}
	if err = readingOnly(stmt); err != nil {
		duck.DestroyPrepare(&stmt)
	}
	return stmt, err
}

func readingOnly(stmt duck.PreparedStatement) error {
	switch t := duck.PreparedStatementType(stmt); t {
	case duck.StatementTypeSelect, duck.StatementTypeExplain:
	default:
		return refused(statementName(t))
	}
	if duck.NParams(stmt) > 0 {
		return &Error{Msg: "the statement has parameters ($1 or ?), and there is nothing to fill them with"}
	}
	return nil
}

// statementName is what DuckDB takes the statement for.
func statementName(t duck.StatementType) string {
	names := map[duck.StatementType]string{
		duck.StatementTypeInsert: "INSERT", duck.StatementTypeUpdate: "UPDATE", duck.StatementTypeDelete: "DELETE",
		duck.StatementTypePrepare: "PREPARE", duck.StatementTypeCreate: "CREATE", duck.StatementTypeExecute: "EXECUTE",
		duck.StatementTypeAlter: "ALTER", duck.StatementTypeTransaction: "TRANSACTION", duck.StatementTypeCopy: "COPY",
		duck.StatementTypeAnalyze: "ANALYZE", duck.StatementTypeVariableSet: "SET", duck.StatementTypeCreateFunc: "CREATE",
		duck.StatementTypeDrop: "DROP", duck.StatementTypeExport: "EXPORT", duck.StatementTypePragma: "PRAGMA",
		duck.StatementTypeVacuum: "VACUUM", duck.StatementTypeCall: "CALL", duck.StatementTypeSet: "SET",
		duck.StatementTypeLoad: "LOAD", duck.StatementTypeExtension: "EXTENSION", duck.StatementTypeAttach: "ATTACH",
		duck.StatementTypeDetach: "DETACH",
	}
	if n, ok := names[t]; ok {
		return n
	}
	return "such"
}

// writing are first words of statements that are not run. They only choose the message of a statement that DuckDB could
// not even prepare.
var writing = map[string]bool{"INSERT": true, "UPDATE": true, "DELETE": true, "CREATE": true, "DROP": true, "ALTER": true,
	"COPY": true, "EXPORT": true, "IMPORT": true, "ATTACH": true, "DETACH": true, "INSTALL": true, "LOAD": true, "SET": true,
	"RESET": true, "CALL": true, "PRAGMA": true, "VACUUM": true, "TRUNCATE": true, "MERGE": true, "CHECKPOINT": true,
	"FORCE": true, "USE": true, "PREPARE": true, "EXECUTE": true, "ANALYZE": true, "COMMENT": true, "GRANT": true}

// dangerous are functions with effects beyond an answer. enable_logging to a file, which the locked settings forbid, ends
// the whole process (DuckDB 1.5.4 throws from a destructor). Who hides the name from this in a query('…') harms himself.
var dangerous = regexp.MustCompile(`(?i)\b(enable_logging|disable_logging|truncate_duckdb_logs|write_log|force_checkpoint|checkpoint|enable_profiling|disable_profiling)"?\s*\(`)

var leading = regexp.MustCompile(`^(?:\s+|--[^\n]*(?:\n|$)|/\*(?s:.*?)\*/|\()+`)

var word = regexp.MustCompile(`[A-Za-z]+`)

// writingWord is the first word of a writing statement within another, such as EXPLAIN ANALYZE.
func writingWord(sql string) string {
	for _, w := range word.FindAllString(sql, -1) {
		if writing[strings.ToUpper(w)] && !strings.EqualFold(w, "ANALYZE") {
			return w
		}
	}
	return "writing"
}

// firstWord is the statement's first word, without comments and parentheses before it.
func firstWord(sql string) string {
	sql = leading.ReplaceAllString(sql, "")
	end := strings.IndexFunc(sql, func(c rune) bool { return (c|0x20) < 'a' || (c|0x20) > 'z' })
	if end >= 0 {
		sql = sql[:end]
	}
	return strings.ToUpper(sql)
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
	if err := r.ctx.Err(); err != nil {
		r.mu.err = err
		return
	}
	r.mu.chunk = duck.FetchChunk(r.mu.res)
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

// explain prefers the reason for an interrupt to the interrupt.
func (r *Rows) explain(err error) error {
	if cause := r.ctx.Err(); cause != nil {
		return cause
	}
	return err
}

// Values are the row's, in the types that package model names; intervals, UUIDs, times of day, bit strings and infinite
// dates are texts. No value loses a digit. The slice is the caller's.
func (r *Rows) Values() []any { return r.mu.row }

// Err is what ended the rows early, or nil.
func (r *Rows) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.err
}

// Close ends the question; it may be called twice.
func (r *Rows) Close() error {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseLocked()
	return nil
}

// abort ends the question from another goroutine.
func (r *Rows) abort(cause error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	stop := r.conn.interruptOn(ended) // until whoever is inside a call has come out of it
	r.mu.Lock()
	stop()
	if r.mu.err == nil && !r.mu.done {
		r.mu.err = cause
	}
	r.mu.Unlock()
	_ = r.Close()
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
	r.conn.close() // rolls the transaction back
	r.mu.open = false
	r.e.remove(r)
}
