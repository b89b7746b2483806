package owner

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Quiet is how long a training's rows may wait until somebody asks. To open a database takes 150 ms of CPU time, and
// its first transactions as much again: that is most of what observing costs in the first seconds, where trainer and
// collector share a core. Until then records stay in the rings, and samples in memory, as a question finds them.
const Quiet = 10 * time.Second

// base is the session's database. That of a new session is made when something must be read from it or written to it.
type base struct {
	open func(context.Context) (*store.DB, error)
	mu   sync.Mutex // held by who opens it
	db   atomic.Pointer[store.DB]
}

// prepare opens a database that is there. It may have rows that must not be stored twice, and of which others ask.
func (b *base) prepare(ctx context.Context, s *session.Session, opts store.Options) error {
	b.open = func(ctx context.Context) (*store.DB, error) { return store.Open(ctx, opts) }
	if _, err := os.Stat(s.Database()); os.IsNotExist(err) && !opts.ReadOnly {
		b.open = func(ctx context.Context) (*store.DB, error) { return create(ctx, opts) }
		return nil
	}
	_, err := b.get(ctx)
	return err
}

// create opens a database that is not there. What a full disk leaves of it is removed: half a file is none, and would
// be taken for a damaged one when there is room again.
func create(ctx context.Context, opts store.Options) (*store.DB, error) {
	db, err := store.Open(ctx, opts)
	if err != nil {
		_ = rootdir.Remove(opts.Path)
		_ = rootdir.Remove(opts.Path + ".wal")
	}
	return db, err
}

// get returns the database, opened.
func (b *base) get(ctx context.Context) (*store.DB, error) {
	if db := b.db.Load(); db != nil {
		return db, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if db := b.db.Load(); db != nil {
		return db, nil
	}
	db, err := b.open(context.WithoutCancel(ctx)) // half a migration would be of no use to the next who asks
	if err == nil {
		b.db.Store(db)
	}
	return db, err
}

// opened returns the database if it is open, else nil.
func (b *base) opened() *store.DB { return b.db.Load() }

// append stores a batch.
func (b *base) append(ctx context.Context, batch *model.Batch) error {
	db, err := b.get(ctx)
	if err != nil {
		return err
	}
	return db.Append(ctx, batch)
}

func (b *base) close() error {
	if db := b.opened(); db != nil {
		return db.Close()
	}
	return nil
}

// sink is where the rings' batches go.
type sink struct{ *base }

// Append stores a batch.
func (s sink) Append(ctx context.Context, b *model.Batch) error { return s.append(ctx, b) }

// Cursors are those that are stored: none where there is no database yet.
func (s sink) Cursors(ctx context.Context) (map[uint64]model.Cursor, error) {
	if db := s.opened(); db != nil {
		return db.Cursors(ctx)
	}
	return map[uint64]model.Cursor{}, nil
}

// Names are those that are stored.
func (s sink) Names(ctx context.Context) ([]model.Name, error) {
	if db := s.opened(); db != nil {
		return db.Names(ctx)
	}
	return nil, nil
}

// Rests reports whether nothing need be stored yet: the session is new, nobody has asked, and the training is young.
func (o *Owner) Rests() bool { return o.base.opened() == nil && o.trainers.Age() < Quiet }
