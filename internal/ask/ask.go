// Package ask finds who answers for a session and asks it: the collector of a live one, which it wakes where there is
// none, or this process, which opens the database of a finished one after it has stored what a collector left in the
// rings. A caller sees no difference. It knows what is asked over the socket and in place, and nothing of what a
// collector does.
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/session"
)

// Backend answers questions about a session, wherever its database is open.
type Backend interface {
	Query(ctx context.Context, q api.QueryRequest, w io.Writer) error
	Tables(ctx context.Context, all bool) ([]model.Table, error)
	Summary(ctx context.Context) (api.Summary, error)
	Outcome(ctx context.Context) (api.Summary, error)
	Leak(ctx context.Context, q api.LeakRequest) (detect.Report, error)
	Census(ctx context.Context, q api.CensusRequest) (api.CensusReply, error)
	Close() error
}

// Connect finds who answers for the session: the collector of a live one (started anew if it died), or this process
// itself for a finished one, whose rings it first drains. What can't be brought up to date is read as it is, with a
// note.
func Connect(ctx context.Context, s *session.Session) (Backend, error) {
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

// finished opens a finished session: for reading, after what was left to do has been done.
func finished(ctx context.Context, s *session.Session) (Backend, error) {
	var failed error
	note := ""
	if s.Unfinished() {
		if failed = recoverSession(ctx, s); failed != nil {
			if ctx.Err() != nil || errors.Is(failed, session.ErrLocked) {
				return nil, failed
			}
			note = "what was left in the rings could not be stored (" + api.Why(failed) + ")"
		}
	}
	b, err := asItIs(ctx, s, note)
	if err != nil && failed != nil {
		return nil, failed
	}
	return b, err
}
