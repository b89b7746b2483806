package store

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// SnapshotVersion is the version of a snapshot's database. It changes with any of its contents, including how
// categories and sites are found. A database of another version is made again.
const SnapshotVersion = 3

//go:embed snapshot.sql
var snapshotSchema string

// snapshotBlock is the block size of a snapshot's database in bytes, DuckDB's default. Sessions have smaller blocks
// (see blockSize), but this database is written once and has few columns.
const snapshotBlock = 256 << 10

// snapshotMemory is DuckDB's memory limit in bytes while it makes a snapshot's database. Each full row group is written
// to the file, so more memory would only cache written blocks, while the history takes hundreds of MB.
const snapshotMemory = 128 << 20

// MakeSnapshot writes a memory history as a database. The file at path appears only when it is complete; until then the
// engine's files lie beside it. told, unless nil, is called now and then with the share of rows that are written (0 to
// 1), never from two goroutines at a time.
func MakeSnapshot(ctx context.Context, path string, h *anatomy.History, told func(share float64)) error {
	own, err := newScratch(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer own.remove()
	o := Options{Path: filepath.Join(own.path, "made.duckdb"), TempDir: own.path, blockBytes: snapshotBlock,
		logBytes: 1 << 40, MemoryLimit: snapshotMemory}.withDefaults()
	if err := loadSnapshot(ctx, o, h, told); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("make %s: %w", path, err)
	}
	err = rootdir.In(path, func(d *rootdir.Dir, name string) error {
		return own.dir.Give(filepath.Base(o.Path), d, name)
	})
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}

// OpenSnapshot opens a database of MakeSnapshot for reading. Another version is refused with ErrEdited. stuck is
// Options.Stuck.
func OpenSnapshot(ctx context.Context, path string, stuck func(sql string)) (*DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own, err := newScratch(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	o := Options{Path: path, ReadOnly: true, TempDir: own.path, Stuck: stuck, snapshot: true,
		blockBytes: snapshotBlock}.withDefaults()
	e, err := openEngine(o)
	if err != nil {
		own.remove()
		return nil, err
	}
	db := &DB{o: o, scratch: own}
	db.state.e = e
	about := map[string]string{}
	err = db.read(ctx, reviewSnapshot)
	if err == nil {
		about, err = db.AboutSnapshot(ctx)
	}
	if err == nil && about["version"] != itoa(SnapshotVersion) {
		err = &Error{Msg: "its version is " + about["version"], Kind: ErrEdited}
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return db, nil
}

// AboutSnapshot returns what a snapshot's database says of itself, by name: "version", and "cut", the reason why the
// snapshot's file ended early.
func (db *DB) AboutSnapshot(ctx context.Context) (map[string]string, error) {
	about := map[string]string{}
	err := db.read(ctx, func(c *conn) error {
		return c.all("SELECT name, value FROM store.about", func(v []any) { about[v[0].(string)], _ = v[1].(string) })
	})
	return about, err
}

// loadSnapshot makes the database of a history: most events on one connection, everything else on another, so that both
// cores work.
func loadSnapshot(ctx context.Context, o Options, h *anatomy.History, told func(share float64)) error {
	e, err := openEngine(o)
	if err != nil {
		return err
	}
	defer e.close()
	l := newSnapshotLoad(h)
	if err := withOne(ctx, e, l.schema); err != nil {
		return err
	}
	var wait sync.WaitGroup
	errs := make([]error, 2)
	first := make(chan struct{}) // closed when the first part is in, or never will be: rows lie in the order of commits
	wait.Go(func() {
		defer close(first)
		errs[0] = withOne(ctx, e, func(c *conn) error {
			return inOne(c, func() error { return l.history(ctx, c, 0, l.split(), told) })
		})
	})
	wait.Go(func() {
		errs[1] = withOne(ctx, e, func(c *conn) error {
			return inOne(c, func() error {
				if err := l.rest(ctx, c); err != nil {
					return err
				}
				if err := l.history(ctx, c, l.split(), h.Len(), nil); err != nil {
					return err
				}
				<-first
				return nil
			})
		})
	})
	wait.Wait()
	for _, err := range errs { // a full disk stops both alike
		if err != nil {
			return whyFull(err)
		}
	}
	return whyFull(withOne(ctx, e, func(c *conn) error { return c.exec("CHECKPOINT") }))
}

// inOne runs a piece of work in a transaction. After an error the caller closes the connection, which rolls it back.
func inOne(c *conn, work func() error) error {
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return c.exec("COMMIT")
}

// whyFull adds a remedy if the disk is full.
func whyFull(err error) error {
	if err != nil && IsFull(err) {
		return remedy.Add(err, "a snapshot's tables take about a tenth of its size")
	}
	return err
}

// withOne runs a piece of work on a connection of its own.
func withOne(ctx context.Context, e *engine, work func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := e.connect()
	if err != nil {
		return err
	}
	defer c.close()
	defer c.interruptOn(ctx, nil)()
	return work(c)
}

// schema makes the types from the file's values, then the tables.
func (l *snapshotLoad) schema(c *conn) error {
	for _, t := range []struct{ name, typ string }{
		{"action", enumOfValues(l.actions)}, {"category", enumOfValues(anatomy.CategoryNames())},
		{"pool", l.pools.typ()}, {"note", l.notes.typ()}, {"site", l.sites.typ()},
	} {
		if err := c.exec("CREATE TYPE " + t.name + " AS " + t.typ); err != nil {
			return fmt.Errorf("type %s: %w", t.name, err)
		}
	}
	return c.exec(snapshotSchema)
}
