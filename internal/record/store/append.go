package store

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// writer keeps the state of appending between batches. Only the holder of DB.writing may use it.
type writer struct {
	loaded bool
	names  map[int32]text            // what is in store.names, as DuckDB wants it
	rings  map[uint64]model.Cursor   // what is in store.cursors
	places map[string]map[string]int // where the columns of each stored table lie, by name
	batch  int64                     // number of the newest transaction
	arena  arena
}

func (w *writer) close() {
	w.arena.free()
	*w = writer{}
}

// Append stores the whole batch in one transaction, or nothing of it. A row may name a text of the same batch. After an
// error the same batch may be tried again.
func (db *DB) Append(ctx context.Context, b *model.Batch) error {
	db.writing.Lock()
	defer db.writing.Unlock()
	defer db.boundLogLocked()
	committing := false
	err := db.withConn(ctx, func(c *conn) error {
		if err := db.w.load(c); err != nil {
			return err
		}
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		db.w.batch++
		fresh, err := db.w.rows(c, b)
		if err == nil {
			committing = db.w.moves(b.Cursors)
			err = c.exec("COMMIT")
		}
		if err != nil {
			_ = c.exec("ROLLBACK") // fails where DuckDB has rolled back already
			db.w.forget(fresh)
			return err
		}
		for _, cur := range b.Cursors {
			db.w.rings[cur.RingID] = cur
		}
		return nil
	})
	if err != nil && committing && db.arrivedLocked(b) {
		return nil
	}
	return db.about("append to", err)
}

// arrivedLocked reports whether a batch is in the database although its commit returned an error. DuckDB does a
// checkpoint with some commits, and that alone may have failed. The stored cursors tell, since they are committed with
// the rows.
func (db *DB) arrivedLocked(b *model.Batch) bool {
	stored, err := db.Cursors(context.Background()) // the batch's context may be what ended it
	if err != nil {
		return false
	}
	last := map[uint64]model.Cursor{}
	for _, cur := range b.Cursors {
		last[cur.RingID] = cur
	}
	for id, cur := range last {
		if stored[id] != cur {
			return false
		}
	}
	db.w.close() // what it remembers may lack the batch; the next Append reads it anew
	return true
}

// moves reports whether the cursors differ from the stored ones. Only then can they show whether a batch was stored.
func (w *writer) moves(list []model.Cursor) bool {
	return slices.ContainsFunc(list, func(cur model.Cursor) bool { return w.rings[cur.RingID] != cur })
}

// load reads the names and ring ids that the database has.
func (w *writer) load(c *conn) error {
	if w.loaded {
		return nil
	}
	w.close()
	w.names, w.rings = map[int32]text{0: w.arena.put("?")}, map[uint64]model.Cursor{}
	names, err := names(c)
	if err != nil {
		return err
	}
	for _, n := range names {
		w.names[n.ID] = w.arena.put(n.Text)
	}
	if w.rings, err = cursors(c); err != nil {
		return err
	}
	if w.places, err = places(c); err != nil {
		return err
	}
	w.batch, err = numberBatches(c)
	w.loaded = err == nil
	return err
}

// perOpening is how many transactions are numbered before the database is opened again, at most: a thousand a second
// for 49 days, and a session makes one every few seconds.
const perOpening = 1 << 32

// numberBatches returns the number after which those of this writer begin. They only rise, whatever retention removes:
// who has read up to one of them finds what is newer by a higher number. Counting openings costs appending nothing.
func numberBatches(c *conn) (int64, error) {
	v, err := c.one("SELECT coalesce(max(opened), 0) + 1 FROM store.batches")
	if err != nil {
		return 0, err
	}
	opened := v[0].(int64)
	err = c.exec(fmt.Sprintf("BEGIN; DELETE FROM store.batches; INSERT INTO store.batches VALUES (%d); COMMIT", opened))
	if err != nil {
		_ = c.exec("ROLLBACK")
	}
	return opened * perOpening, err
}

// forget removes the names of a batch that was not stored.
func (w *writer) forget(fresh []model.Name) {
	for _, n := range fresh {
		delete(w.names, n.ID)
	}
}

// rows writes everything of the batch into the open transaction. fresh are the names that were new.
func (w *writer) rows(c *conn, b *model.Batch) (fresh []model.Name, err error) {
	fresh, err = w.intern(b.Names)
	if err != nil {
		return fresh, err
	}
	if err := w.fill(c, table.Names, &fresh); err != nil {
		return fresh, err
	}
	for _, t := range table.All {
		if t.Rows == nil {
			continue
		}
		if err := w.fill(c, t, t.Rows(b)); err != nil {
			return fresh, err
		}
	}
	return fresh, w.moveCursors(c, b.Cursors)
}

// intern remembers names; one that is known already must be the same.
func (w *writer) intern(names []model.Name) (fresh []model.Name, err error) {
	for _, n := range names {
		if have, ok := w.names[n.ID]; ok {
			if string(have.bytes()) != n.Text {
				return fresh, fmt.Errorf("name %d is %q already, not %q", n.ID, have.bytes(), n.Text)
			}
			continue
		}
		n.Text = utf8Only(n.Text)
		w.names[n.ID] = w.arena.put(n.Text)
		fresh = append(fresh, n)
	}
	return fresh, nil
}

// moveCursors updates known rings in place (a deleted and reinserted row would stay until the next checkpoint) and
// inserts new ones. The last of several for one ring counts.
func (w *writer) moveCursors(c *conn, list []model.Cursor) error {
	last := map[uint64]model.Cursor{}
	for _, cur := range list {
		last[cur.RingID] = cur
	}
	var insert, update []string
	for _, id := range slices.Sorted(maps.Keys(last)) {
		cur := last[id]
		row := fmt.Sprintf("(%d::UBIGINT, %s, %d::UBIGINT, %t)", id, quote(cur.File), cur.Seq, cur.Done)
		if _, known := w.rings[id]; known {
			update = append(update, row)
		} else {
			insert = append(insert, row)
		}
	}
	if len(insert) > 0 {
		if err := c.exec("INSERT INTO store.cursors VALUES " + strings.Join(insert, ", ")); err != nil {
			return err
		}
	}
	if len(update) == 0 {
		return nil
	}
	return c.exec("UPDATE store.cursors SET file = v.file, seq = v.seq, done = v.done FROM (VALUES " +
		strings.Join(update, ", ") + ") v(ring_id, file, seq, done) WHERE cursors.ring_id = v.ring_id")
}

// Cursors returns for each ring, by its id, how far its records are stored.
func (db *DB) Cursors(ctx context.Context) (list map[uint64]model.Cursor, err error) {
	err = db.read(ctx, func(c *conn) (err error) { list, err = cursors(c); return err })
	return list, db.about("read cursors of", err)
}

func cursors(c *conn) (map[uint64]model.Cursor, error) {
	list := map[uint64]model.Cursor{}
	err := c.all("SELECT ring_id, file, seq, done FROM store.cursors", func(v []any) {
		list[v[0].(uint64)] = model.Cursor{RingID: v[0].(uint64), File: v[1].(string), Seq: v[2].(uint64),
			Done: v[3].(bool)}
	})
	return list, err
}

// Names returns the interned texts with their numbers.
func (db *DB) Names(ctx context.Context) (list []model.Name, err error) {
	err = db.read(ctx, func(c *conn) (err error) { list, err = names(c); return err })
	return list, db.about("read names of", err)
}

func names(c *conn) (list []model.Name, err error) {
	err = c.all("SELECT id, text FROM store.names ORDER BY id", func(v []any) {
		list = append(list, model.Name{ID: int32(v[0].(int64)), Text: v[1].(string)})
	})
	return list, err
}

// arena holds the texts that DuckDB's vectors point to. Go's garbage collector doesn't see those pointers, so the
// blocks are pinned until free is called.
type arena struct {
	pin   runtime.Pinner
	block []byte // of the newest block, what is free
	keep  [][]byte
}

const arenaBlock = 64 << 10 // a few hundred module names; a session has one or two blocks

// put copies s and describes it as DuckDB does: short texts inline, long ones by their first bytes and a pointer.
func (a *arena) put(s string) text {
	t := text{length: uint32(len(s))}
	if len(s) <= inlineText {
		copy(t.inline()[:], s)
		return t
	}
	if len(a.block) < len(s) {
		a.block = make([]byte, max(arenaBlock, len(s)))
		a.keep = append(a.keep, a.block)
		a.pin.Pin(&a.block[0])
	}
	n := copy(a.block, s)
	copy(t.prefix[:], s) // what DuckDB compares first
	*t.far() = unsafe.Pointer(&a.block[0])
	a.block = a.block[n:]
	return t
}

func (a *arena) free() {
	a.pin.Unpin()
	*a = arena{}
}

// appendError returns the appender's own message, which says more than its state does.
func appendError(app duck.Appender, table string) error {
	data := duck.AppenderErrorData(app)
	defer duck.DestroyErrorData(&data)
	return nativeError(duck.ErrorDataErrorType(data), duck.ErrorDataMessage(data), table)
}

// utf8Only replaces invalid UTF-8, which DuckDB would refuse.
func utf8Only(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
