// Package ask connects commands to a session. The collector of a live session answers; if none runs, the package starts
// one. For a finished session this process opens the database, after it has stored what is left in the rings. The
// caller gets an api.Session either way. Requests that need only the session's live processes go to them directly, so
// that an eval needs neither collector nor database.
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/session"
)

// opened is a session of this user. It connects to the database, or to the collector, with the first request that needs
// one.
type opened struct {
	service.Job
	apart bool // a finished session is opened in a process of its own
	mu    sync.Mutex
	db    database // nil until it is needed
}

// database is who answers from a session's rows.
type database interface {
	Query(ctx context.Context, q api.QueryRequest, w io.Writer) error
	Tables(ctx context.Context, all bool) ([]model.Table, error)
	Summary(ctx context.Context) (api.Summary, error)
	Outcome(ctx context.Context) (api.Summary, error)
	Events(ctx context.Context, q api.EventsRequest, take func(api.Event) error) error
	Leak(ctx context.Context, q api.LeakRequest) (detect.Report, error)
	OOM(ctx context.Context, q api.OOMRequest) (*monitor.Report, error)
	Census(ctx context.Context, q api.CensusRequest) (api.CensusReply, error)
	Close() error
}

var _ api.Session = (*opened)(nil)

// Open returns the session's interface without connecting to anything yet.
func Open(s *session.Session) api.Session { return &opened{Job: service.Job{S: s}} }

// Connect opens a session and connects to its database: through the collector of a live one (restarted if it died), or
// in this process for a finished one, whose rings it drains first. If the rings can't be drained, the database is read
// as it is, with a note.
func Connect(ctx context.Context, s *session.Session) (api.Session, error) {
	return connected(ctx, &opened{Job: service.Job{S: s}})
}

func connected(ctx context.Context, o *opened) (api.Session, error) {
	if _, err := o.database(ctx); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *opened) database(ctx context.Context) (database, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.db != nil {
		return o.db, nil
	}
	db, err := find(ctx, o.S, o.apart)
	if err == nil {
		o.db = db
	}
	return db, err
}

// find connects to the session's collector, or opens its database.
func find(ctx context.Context, s *session.Session, apart bool) (database, error) {
	if s.Live() {
		err := wake(ctx, s)
		if err == nil {
			return live{api.NewClient(s.Socket()), s.Socket()}, nil
		}
		if s.Live() {
			if b, rerr := reading(apart)(ctx, s, fmt.Sprintf("no collector answers (%v)", err)); rerr == nil &&
				ctx.Err() == nil {
				return b, nil
			}
			return nil, err
		}
	}
	return finished(ctx, s, reading(apart))
}

// leave gives up the connection to a collector that has ended: who asks next looks for its successor, or for the
// finished session.
func (o *opened) leave(db database) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.db == db {
		o.db = nil
	}
	_ = db.Close() // only what is idle: others may still wait for their answers
}

// settle has the finished session answer, and no collector that is about to end and may not have stored all.
func (o *opened) settle() {
	o.mu.Lock()
	db, isLive := o.db.(live)
	o.mu.Unlock()
	if isLive && !o.S.Live() {
		o.leave(db)
	}
}

// through sends a request to whoever has the database. Where a collector ends under it, who has it then is asked:
// another collector, or this process, which finishes the session first. This is the one place where that happens. anew
// says whether the answer can begin again.
func (o *opened) through(ctx context.Context, anew func() bool, ask func(context.Context, database) error) error {
	return retry(ctx, anew, func() error {
		db, err := o.database(ctx)
		if err != nil {
			return err
		}
		if err = asking(ctx, db, ask); errors.Is(err, api.ErrBroken) {
			o.leave(db)
		}
		return err
	})
}

// from is through for an answer that is a value.
func from[T any](ctx context.Context, o *opened, ask func(context.Context, database) (T, error)) (v T, err error) {
	err = o.through(ctx, always, func(ctx context.Context, db database) (err error) {
		v, err = ask(ctx, db)
		return err
	})
	return v, err
}

func always() bool { return true }

// begun notes what was written of an answer, which begins again only where that can be forgotten.
type begun struct {
	io.Writer
	some bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.some = true
	return b.Writer.Write(p)
}

func (b *begun) anew() bool {
	if w, ok := b.Writer.(interface{ Reset() }); ok && b.some {
		w.Reset()
		b.some = false
	}
	return !b.some
}

// Query runs a statement. If w has a method Reset, which forgets what was written, an answer that has begun can be
// given anew.
func (o *opened) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	out := &begun{Writer: w}
	if q.Note != nil {
		ctx = context.WithValue(ctx, noted{}, true)
	}
	return o.through(ctx, out.anew, func(ctx context.Context, db database) error { return db.Query(ctx, q, out) })
}

// Tables describes the tables.
func (o *opened) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	return from(ctx, o, func(ctx context.Context, db database) ([]model.Table, error) { return db.Tables(ctx, all) })
}

// Summary implements api.Session.
func (o *opened) Summary(ctx context.Context) (api.Summary, error) {
	return from(ctx, o, func(ctx context.Context, db database) (api.Summary, error) { return db.Summary(ctx) })
}

// Outcome returns the summary of a finished session with its verdict.
func (o *opened) Outcome(ctx context.Context) (api.Summary, error) {
	return from(ctx, o, func(ctx context.Context, db database) (api.Summary, error) { return db.Outcome(ctx) })
}

// Events calls take for each event.
func (o *opened) Events(ctx context.Context, q api.EventsRequest, take func(api.Event) error) error {
	some := false
	return o.through(ctx, func() bool { return !some }, func(ctx context.Context, db database) error {
		return db.Events(ctx, q, func(e api.Event) error {
			some = true
			return take(e)
		})
	})
}

// Leak judges the session: where it has ended, all of it.
func (o *opened) Leak(ctx context.Context, q api.LeakRequest) (detect.Report, error) {
	o.settle()
	return from(ctx, o, func(ctx context.Context, db database) (detect.Report, error) { return db.Leak(ctx, q) })
}

// OOM predicts when memory runs out.
func (o *opened) OOM(ctx context.Context, q api.OOMRequest) (*monitor.Report, error) {
	return from(ctx, o, func(ctx context.Context, db database) (*monitor.Report, error) { return db.OOM(ctx, q) })
}

// Census takes a census of live processes: what holds their memory.
func (o *opened) Census(ctx context.Context, q api.CensusRequest) (api.CensusReply, error) {
	return from(ctx, o, func(ctx context.Context, db database) (api.CensusReply, error) { return db.Census(ctx, q) })
}

// Where lists the job's bytes.
func (o *opened) Where(ctx context.Context) (api.Where, error) { return o.WhereFrom(ctx, o) }

// Close closes the connection or the database.
func (o *opened) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.db == nil {
		return nil
	}
	err := o.db.Close()
	o.db = nil
	return err
}

// noted is the key of a context whose answer has the note itself.
type noted struct{}

// opening opens a database for reading; note is what the user must know about every answer.
type opening func(ctx context.Context, s *session.Session, note string) (database, error)

// reading is how a database is opened: in this process or in one of its own.
func reading(apart bool) opening {
	if apart {
		return openApart
	}
	return asItIs
}

// finished opens a finished session for reading, after it has drained the rings and recorded the end if that was left
// undone.
func finished(ctx context.Context, s *session.Session, open opening) (database, error) {
	var failed error
	note := ""
	if s.Unfinished() {
		if failed = recoverSession(ctx, s); failed != nil {
			if ctx.Err() != nil || errors.Is(failed, session.ErrLocked) {
				return nil, failed
			}
			note = "what was left in the rings could not be stored (" + service.Why(failed) + ")"
			if ctx.Value(noted{}) == nil {
				tell(ctx, note+inDatabase)
			}
		}
	}
	b, err := open(ctx, s, note)
	if err != nil && failed != nil {
		return nil, failed
	}
	return b, err
}
