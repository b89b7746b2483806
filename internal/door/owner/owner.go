// Package owner holds the open database of a session together with its rings, in the one process that has the session's
// lock: a collector, or a client that recovers a session or reads a finished one. It drains the rings, stores samples
// and verdicts, and finishes a session, which leaves empty rings, a compact database and a recorded end. The process
// decides when; an owner starts nothing by itself.
package owner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/analyse"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/door/stacks"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/ingest"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Owner is the open database of a session together with its rings. The process holds the session's lock: exclusively if
// it drains the rings, shared if it only reads.
type Owner struct {
	s        *session.Session
	base     base
	rings    *ingest.Ingester
	readOnly bool

	pending  pending // of the samplers
	trainers Trainers
	ooms     chan int64 // times of events about a failed allocation
	natives  natives    // samples of native memory
	sources  analyse.Sources

	verdicts struct {
		sync.Mutex
		last  detect.Report
		count int64
	}
}

// Open opens the session's database, if there is one, and, unless readOnly, its rings. The caller holds the session's
// lock. stuck is store.Options.Stuck, and may be nil.
func Open(ctx context.Context, s *session.Session, readOnly bool, stuck func(string)) (*Owner, error) {
	opts := store.Options{Path: s.Database(), ReadOnly: readOnly, MaxDisk: s.Meta.MaxDisk, Stuck: stuck}
	if !readOnly {
		opts.Threads = 1 // beside a training: in most of our queries a second thread only spins, waiting for the first
	}
	o := &Owner{s: s, readOnly: readOnly, ooms: make(chan int64, 1)}
	if err := o.base.prepare(ctx, s, opts); err != nil {
		return nil, err
	}
	if !readOnly {
		o.rings = ingest.New(s.Rings(), sink{&o.base}, ingest.Options{Alive: s.Alive, Seen: o.seen, Rests: o.Rests})
		o.natives.s = s
	}
	return o, nil
}

// Service returns the session's interface on this database.
func (o *Owner) Service() *service.Service {
	svc := &service.Service{Job: service.Job{S: o.s}, Open: o.base.get, Sources: &o.sources}
	if !o.readOnly {
		svc.Drain, svc.Stacks = o.Drain, o.backtrace
	}
	return svc
}

// backtrace queries every live process of the session for its stacks.
func (o *Owner) backtrace(ctx context.Context) (rows []model.Backtrace, err error) {
	ctx, cancel := context.WithTimeout(ctx, stacks.Patience)
	defer cancel()
	for _, p := range stacks.All(ctx, o.s.Askable(), false) {
		rows = append(rows, p.Rows()...)
	}
	return rows, nil
}

// Query runs a statement on the database. It makes an owner a store.Querier.
func (o *Owner) Query(ctx context.Context, sql string) (*store.Rows, error) {
	db, err := o.base.get(ctx)
	if err != nil {
		return nil, err
	}
	return db.Query(ctx, sql)
}

// Load reads what a verdict on the session as it is goes by.
func (o *Owner) Load(ctx context.Context) (detect.Input, error) {
	in, err := analyse.Load(ctx, o, analyse.Options{Sources: &o.sources})
	if db := o.base.opened(); db != nil {
		db.MakeRoom(err) // for the next look: a question may not keep the session from being judged
	}
	return in, err
}

// Asked reports whether a query runs.
func (o *Owner) Asked() bool { return o.oldest() > 0 }

// oldest is how long the oldest query has been running.
func (o *Owner) oldest() time.Duration {
	if db := o.base.opened(); db != nil {
		return db.Oldest()
	}
	return 0
}

// Trainers returns the last readings that the session's processes have written.
func (o *Owner) Trainers() *Trainers { return &o.trainers }

// OOMs receives the time of each failed allocation that a process reports, in µs since the epoch. Reports that come
// before the last one was received are left out.
func (o *Owner) OOMs() <-chan int64 { return o.ooms }

// Close closes the database and the rings.
func (o *Owner) Close() error {
	var err error
	if o.rings != nil {
		err = errors.Join(o.StoreSamples(context.Background(), 0), o.rings.Close(), o.natives.close())
	}
	return errors.Join(err, o.base.close())
}
