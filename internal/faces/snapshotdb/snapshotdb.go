// Package snapshotdb owns the tables of memory snapshots. The first query of a snapshot's file makes a database of it,
// which the cache keeps for later queries. The package guarantees that a database in the cache is complete and belongs
// to the file's content, and that the cache stays within its bounds. Packages anatomy and store define what the tables
// contain.
package snapshotdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Source is a snapshot's file.
type Source struct {
	Path string
	// Read reads the file; it is not called if the cache has its tables. Open owns the history.
	Read func(context.Context) (*anatomy.History, error)
	// Making is called with the share of the tables that is made, 0 to 1; it may be nil.
	Making func(share float64)
	// Note is called with remarks for the user; it may be nil.
	Note func(string)
}

// Tables is an open database of a snapshot.
type Tables struct {
	service service.Service
	db      *store.DB
	stuck   *service.Stuck
	discard *rootdir.Dir // removed at the end; nil: there is none
	Cut     string       // why the file ended before its time; ""
}

var _ api.Tabled = (*Tables)(nil)

// Open makes the tables of a file or finds them in the cache. If the cache can't be written, they are made for this one
// use.
func Open(ctx context.Context, src Source) (*Tables, error) {
	src, done := readOnce(src)
	defer done()
	dir, err := session.Cache()
	if err == nil && src.Path != "-" {
		var t *Tables
		t, err = openKept(ctx, src, dir)
		if !errors.As(err, new(*cacheError)) {
			return t, err
		}
	}
	if err != nil && src.Note != nil {
		if store.IsFull(err) {
			err = fmt.Errorf("the disk of %s is full", dir)
		}
		src.Note(fmt.Sprintf("the tables are not kept for the next question: %v", err))
	}
	return openOnce(ctx, src)
}

// readOnce makes a source whose file is read only once, even if the tables must be made twice because the cache has no
// room. The history lives until done is called.
func readOnce(src Source) (once Source, done func()) {
	var h *anatomy.History
	read := src.Read
	src.Read = func(ctx context.Context) (_ *anatomy.History, err error) {
		if h == nil {
			h, err = read(ctx)
		}
		return h, err
	}
	return src, func() {
		if h != nil {
			h.Close()
		}
	}
}

// Cached opens the tables of a file if the cache has them.
func Cached(ctx context.Context, path string) (*Tables, bool) {
	dir, err := session.Cache()
	if err != nil || path == "-" {
		return nil, false
	}
	f, err := openRegular(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	key, err := identify(f)
	if err != nil {
		return nil, false
	}
	kept := filepath.Join(dir, prefix+key+suffix)
	t, err := open(ctx, kept)
	if err != nil {
		return nil, false
	}
	use(kept)
	return t, true
}

// openRegular opens a file to be identified: only a regular one has an identity. A named pipe is not even opened, since
// its writer would take it for read and gone.
func openRegular(path string) (*os.File, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err.(*os.PathError).Err} // Stat's are of this kind
		}
		return nil, errIrregular(info)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, errIrregular(info))
	}
	return f, nil
}

// cacheError is an error of the cache, not of the file.
type cacheError struct{ error }

func (e *cacheError) Unwrap() error { return e.error }

// openKept opens the tables in the cache, which it makes first if need be.
func openKept(ctx context.Context, src Source, dir string) (*Tables, error) {
	f, err := openRegular(src.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	key, err := identify(f)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, prefix+key+suffix)
	if t, err := open(ctx, path); err == nil || ctx.Err() != nil {
		use(path)
		return t, err
	}
	release, err := lock(ctx, dir, key)
	if err != nil {
		if ctx.Err() == nil {
			err = &cacheError{err}
		}
		return nil, err
	}
	defer release()
	if t, err := open(ctx, path); err == nil || ctx.Err() != nil { // another command has made it meanwhile
		return t, err
	}
	if err := build(ctx, src, path); err != nil {
		return nil, err
	}
	// the file changed while it was read: the next command must read it again
	if after, err := identify(f); err != nil || after != key {
		defer func() { _ = rootdir.Remove(path) }()
	}
	if err := trim(dir, path, maxBytes, maxFiles); err != nil && src.Note != nil {
		src.Note(fmt.Sprintf("the cache can't be kept within its bounds: %v", err))
	}
	return open(ctx, path)
}

func errIrregular(info os.FileInfo) error {
	if info != nil && info.IsDir() {
		return errors.New("is a directory")
	}
	return &cacheError{errors.New("it is not a regular file")}
}

// build makes the database at a path.
func build(ctx context.Context, src Source, path string) error {
	h, err := src.Read(ctx)
	if err != nil {
		return err
	}
	if err := store.MakeSnapshot(ctx, path, h, src.Making); err != nil {
		if ctx.Err() == nil {
			err = &cacheError{err}
		}
		return err
	}
	return nil
}

// openOnce makes tables outside of the cache, for this use only.
func openOnce(ctx context.Context, src Source) (*Tables, error) {
	dir, err := rootdir.Temp("", "memgauge-snapshot-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir.Path(), prefix+"once"+suffix)
	var t *Tables
	if err = build(ctx, src, path); err == nil {
		t, err = open(ctx, path)
	}
	if err != nil {
		_ = dir.Discard()
		return nil, err
	}
	t.discard = dir
	return t, nil
}

// open opens a database that was made.
func open(ctx context.Context, path string) (*Tables, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	t := &Tables{stuck: service.NewStuck()}
	db, err := store.OpenSnapshot(ctx, path, t.stuck.Tell)
	if err != nil {
		return nil, err
	}
	t.db, t.service = db, service.Service{Open: service.Opened(db)}
	if about, err := db.AboutSnapshot(ctx); err == nil {
		t.Cut = about["cut"]
	}
	return t, nil
}

// Query runs one reading statement and writes its result. It returns in time even if the database doesn't.
func (t *Tables) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	if err := store.BoundMemory(); err != nil {
		return err
	}
	err := t.stuck.Query(ctx, &t.service, q, w)
	if !t.stuck.Hangs() {
		store.UnboundMemory()
	}
	return err
}

// Tables describes the tables; with all, those behind them too.
func (t *Tables) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	return t.db.Tables(ctx, all)
}

// Rows runs a query of our own and calls row for each row.
func (t *Tables) Rows(ctx context.Context, sql string, row func(v []any)) error {
	return store.Each(ctx, t.db, sql, row)
}

// Export writes the result of a query as a Parquet file.
func (t *Tables) Export(ctx context.Context, sql string, w io.Writer) error {
	return t.db.ExportTo(ctx, sql, w)
}

// Close closes the tables, and removes them if they are not in the cache.
func (t *Tables) Close() error {
	if t.stuck.Hangs() {
		return nil
	}
	err := t.db.Close()
	if t.discard != nil {
		err = errors.Join(err, t.discard.Discard())
	}
	return err
}
