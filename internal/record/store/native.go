package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// engine is one open DuckDB instance. It is replaced as a whole when DuckDB has invalidated it (DB.reviveLocked).
type engine struct {
	db duck.Database
	mu struct {
		sync.Mutex
		rows   map[*Rows]struct{} // open results; each holds a connection
		closed bool
	}
}

// openEngine opens the file and locks the settings.
func openEngine(o Options) (*engine, error) {
	e := &engine{}
	e.mu.rows = map[*Rows]struct{}{}
	if err := e.open(o); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	if err := e.lockDown(o); err != nil {
		e.close()
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	return e, nil
}

// open makes the instance; an empty path is a database in memory.
func (e *engine) open(o Options) error {
	var config duck.Config
	if duck.CreateConfig(&config) == duck.StateError {
		return errors.New("no memory for the settings")
	}
	defer duck.DestroyConfig(&config)
	for _, s := range o.settings() {
		if duck.SetConfig(config, s[0], s[1]) == duck.StateError {
			return fmt.Errorf("DuckDB refuses setting %s = %s", s[0], s[1])
		}
	}
	var msg string
	if duck.OpenExt(o.Path, &e.db, config, &msg) == duck.StateError {
		return openError(msg)
	}
	return nil
}

// lockDown keeps every later connection from opening files and from changing settings. DuckDB may go on to use the
// database and its log, to read the files of o.reads, and to write in o.TempDir, where Export writes. It can't be told
// to read a path only: the gate lets through nothing that writes a file.
func (e *engine) lockDown(o Options) error {
	c, err := e.connect()
	if err != nil {
		return err
	}
	defer c.close()
	var shut string
	if o.outside {
		paths := make([]string, len(o.reads))
		for i, path := range o.reads {
			paths[i] = quote(path)
		}
		shut = "SET allowed_directories = [" + quote(o.TempDir) + "]; SET allowed_paths = [" +
			strings.Join(paths, ", ") + "]; SET enable_external_access = false;"
	}
	return c.exec(shut + "SET GLOBAL TimeZone = 'UTC'; SET lock_configuration = true")
}

func (e *engine) connect() (*conn, error) {
	c := &conn{}
	if duck.Connect(e.db, &c.c) == duck.StateError {
		return nil, errors.New("connect to the database: no memory")
	}
	return c, nil
}

// close closes open results and then the instance. It may be called twice.
func (e *engine) close() {
	e.mu.Lock()
	if e.mu.closed {
		e.mu.Unlock()
		return
	}
	e.mu.closed = true
	var open []*Rows
	for r := range e.mu.rows {
		open = append(open, r)
	}
	e.mu.Unlock()
	for _, r := range open {
		r.abort(errClosed)
	}
	duck.Close(&e.db)
}

// add registers an open result, unless the engine is closing.
func (e *engine) add(r *Rows) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return errClosed
	}
	e.mu.rows[r] = struct{}{}
	return nil
}

func (e *engine) remove(r *Rows) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.mu.rows, r)
}

// conn is one connection; DuckDB allows one statement at a time on it.
type conn struct {
	c      duck.Connection
	inside atomic.Int64 // ns since the epoch at which a call of DuckDB for a query began; 0 if none runs
	living sync.Mutex   // held to interrupt and to close: one may come from another goroutine than the other
}

func (c *conn) enter() { c.inside.Store(time.Now().UnixNano()) }
func (c *conn) leave() { c.inside.Store(0) }

// close may meet an interrupt, which must not come to a connection that is gone.
func (c *conn) close() {
	c.living.Lock()
	defer c.living.Unlock()
	duck.Disconnect(&c.c)
}

func (c *conn) interrupt() {
	c.living.Lock()
	defer c.living.Unlock()
	duck.Interrupt(c.c) // does nothing to one that is closed
}

// exec runs statements and discards their results.
func (c *conn) exec(sql string) error {
	var res duck.Result
	defer duck.DestroyResult(&res)
	if duck.Query(c.c, sql, &res) == duck.StateError {
		return nativeError(duck.ResultErrorType(&res), duck.ResultError(&res), sql)
	}
	return nil
}

// all runs a statement of ours and hands each row over.
func (c *conn) all(sql string, row func(v []any)) error {
	var res duck.Result
	defer duck.DestroyResult(&res)
	if duck.Query(c.c, sql, &res) == duck.StateError {
		return nativeError(duck.ResultErrorType(&res), duck.ResultError(&res), sql)
	}
	d := newDecoder(&res)
	defer d.close()
	for {
		chunk := duck.FetchChunk(res)
		if chunk.Ptr == nil {
			return nil
		}
		d.load(chunk)
		for i := range d.size {
			v, err := d.row(i)
			if err != nil {
				duck.DestroyDataChunk(&chunk)
				return err
			}
			row(v)
		}
		duck.DestroyDataChunk(&chunk)
	}
}

// one runs a statement that gives one row.
func (c *conn) one(sql string) (row []any, err error) {
	err = c.all(sql, func(v []any) { row = v })
	if err == nil && row == nil {
		err = errors.New("no row")
	}
	return row, err
}

// interruptEvery is how often an interrupt is repeated: DuckDB forgets one that arrives between two statements.
const interruptEvery = 5 * time.Millisecond

// interruptOn keeps interrupting the connection from the end of ctx until stop is called. stop waits for the last
// interrupt. stuck, unless nil, is called once if DuckDB's call has not returned within Patience after the end of ctx:
// DuckDB checks for interrupts only between chunks of rows, and a single function on one row may take hours.
func (c *conn) interruptOn(ctx context.Context, stuck func()) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-quit:
			return
		case <-ctx.Done():
		}
		c.interruptUntil(quit, stuck)
	}()
	return sync.OnceFunc(func() { close(quit); <-done })
}

func (c *conn) interruptUntil(quit <-chan struct{}, stuck func()) {
	since := time.Now()
	again := time.NewTicker(interruptEvery)
	defer again.Stop()
	for {
		c.interrupt()
		select {
		case <-quit:
			return
		case <-again.C:
		}
		at := c.inside.Load()
		if stuck != nil && at != 0 && time.Since(since) > Patience && time.Since(time.Unix(0, at)) > Patience {
			stuck()
			stuck = nil
		}
	}
}

// quote writes a text as a SQL literal.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
