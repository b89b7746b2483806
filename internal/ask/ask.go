// Package ask finds who answers for a session and asks it: the collector of a live one, which it wakes where there is
// none, or this process, which opens the database of a finished one after it has stored what a collector left in the
// rings. A caller sees no difference: what it gets is an api.Session. What needs only the
// session's processes is asked of them directly, so that an eval depends on no collector and no database.
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/monitor"
	"github.com/memgauge/memgauge/internal/service"
	"github.com/memgauge/memgauge/internal/session"
)

// opened is a session that this user may ask. Who answers from its database is found with the first question to it.
type opened struct {
	service.Job
	mu sync.Mutex
	db api.Session // nil until it is needed
}

var _ api.Session = (*opened)(nil)

// Open makes the door to a session; nobody is asked yet.
func Open(s *session.Session) api.Session { return &opened{Job: service.Job{S: s}} }

// Connect makes the door to a session and finds who answers from its database: the collector of a live one (started
// anew if it died), or this process itself for a finished one, whose rings it first drains. What can't be brought up to
// date is read as it is, with a note.
func Connect(ctx context.Context, s *session.Session) (api.Session, error) {
	o := &opened{Job: service.Job{S: s}}
	_, err := o.database(ctx)
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (o *opened) database(ctx context.Context) (api.Session, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.db != nil {
		return o.db, nil
	}
	db, err := find(ctx, o.S)
	if err == nil {
		o.db = db
	}
	return db, err
}

// find finds who answers from the session's database.
func find(ctx context.Context, s *session.Session) (api.Session, error) {
	if s.Live() {
		err := wake(ctx, s)
		if err == nil {
			return live{api.NewClient(s.Socket()), s}, nil
		}
		if s.Live() {
			if b, rerr := asItIs(ctx, s, fmt.Sprintf("no collector answers (%v)", err)); rerr == nil &&
				ctx.Err() == nil {
				return b, nil
			}
			return nil, err
		}
	}
	return finished(ctx, s)
}

// from asks whoever answers from the database.
func from[T any](ctx context.Context, o *opened, ask func(api.Session) (T, error)) (v T, err error) {
	db, err := o.database(ctx)
	if err != nil {
		return v, err
	}
	return ask(db)
}

// Query runs a statement.
func (o *opened) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	db, err := o.database(ctx)
	if err != nil {
		return err
	}
	return db.Query(ctx, q, w)
}

// Tables describes the tables.
func (o *opened) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	return from(ctx, o, func(db api.Session) ([]model.Table, error) { return db.Tables(ctx, all) })
}

// Summary sums the session up.
func (o *opened) Summary(ctx context.Context) (api.Summary, error) {
	return from(ctx, o, func(db api.Session) (api.Summary, error) { return db.Summary(ctx) })
}

// Outcome sums a session up that is over, with the verdict.
func (o *opened) Outcome(ctx context.Context) (api.Summary, error) {
	return from(ctx, o, func(db api.Session) (api.Summary, error) { return db.Outcome(ctx) })
}

// Events gives what happened.
func (o *opened) Events(ctx context.Context, q api.EventsRequest, take func(api.Event) error) error {
	db, err := o.database(ctx)
	if err != nil {
		return err
	}
	return db.Events(ctx, q, take)
}

// Leak judges the session.
func (o *opened) Leak(ctx context.Context, q api.LeakRequest) (detect.Report, error) {
	return from(ctx, o, func(db api.Session) (detect.Report, error) { return db.Leak(ctx, q) })
}

// OOM says when memory runs out.
func (o *opened) OOM(ctx context.Context, q api.OOMRequest) (*monitor.Report, error) {
	return from(ctx, o, func(db api.Session) (*monitor.Report, error) { return db.OOM(ctx, q) })
}

// Census asks processes what holds their memory.
func (o *opened) Census(ctx context.Context, q api.CensusRequest) (api.CensusReply, error) {
	return from(ctx, o, func(db api.Session) (api.CensusReply, error) { return db.Census(ctx, q) })
}

// Where lists the job's bytes.
func (o *opened) Where(ctx context.Context) (api.Where, error) { return o.WhereFrom(ctx, o) }

// Close lets go of the database.
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

// finished opens a finished session: for reading, after what was left to do has been done.
func finished(ctx context.Context, s *session.Session) (api.Session, error) {
	var failed error
	note := ""
	if s.Unfinished() {
		if failed = recoverSession(ctx, s); failed != nil {
			if ctx.Err() != nil || errors.Is(failed, session.ErrLocked) {
				return nil, failed
			}
			note = "what was left in the rings could not be stored (" + service.Why(failed) + ")"
		}
	}
	b, err := asItIs(ctx, s, note)
	if err != nil && failed != nil {
		return nil, failed
	}
	return b, err
}
