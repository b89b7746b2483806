package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/keeper"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/owner"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/store"
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

const (
	readyTimeout = 5 * time.Second       // a collector opens its socket within some 20 ms
	readyPoll    = 5 * time.Millisecond  // how often we look whether it has
	lockTimeout  = 10 * time.Second      // who holds the lock for so long and writes nothing hangs
	lockLook     = 50 * time.Millisecond // between two looks at what its holder has done
	recoverLimit = 10 * time.Minute      // the full rings of some hundred processes after a crash
)

// Connect finds who answers for the session: the collector of a live one (started anew if it died), or this process
// itself for a finished one, whose rings it first drains. What can't be brought up to date is read as it is, with a note.
func Connect(ctx context.Context, s *session.Session) (Backend, error) {
	if s.Live() {
		err := wake(ctx, s)
		if err == nil {
			return live{api.NewClient(s.Socket()), s}, nil
		}
		if s.Live() {
			if b, rerr := asItIs(ctx, s, fmt.Sprintf("no collector answers (%v)", err)); rerr == nil && ctx.Err() == nil {
				return b, nil
			}
			return nil, err
		}
	}
	return finished(ctx, s)
}

// wake makes sure that a collector listens.
func wake(ctx context.Context, s *session.Session) error {
	if api.Dial(ctx, s.Socket()) == nil {
		return nil
	}
	cmd, err := keeper.SpawnCollector(s)
	if err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }() // ends with the child, or with this process
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if err := api.Dial(ctx, s.Socket()); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return remedy.Add(fmt.Errorf("start collector: no answer within %s", readyTimeout), "see "+s.Log())
		case err := <-gone:
			if err != nil {
				return remedy.Add(fmt.Errorf("start collector: %w", err), "see "+s.Log())
			}
			gone = nil // another collector holds the session: it will answer
		case <-time.After(readyPoll):
		}
	}
}

// live is a client of a collector. One that is killed while it is asked is replaced, and the successor asked once more; a
// query is asked again by who knows what was shown of it.
type live struct {
	*api.Client
	s *session.Session
}

func (live) Close() error { return nil }

func (l live) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	return again(ctx, l, func() ([]model.Table, error) { return l.Client.Tables(ctx, all) })
}

func (l live) Summary(ctx context.Context) (api.Summary, error) {
	return again(ctx, l, func() (api.Summary, error) { return l.Client.Summary(ctx) })
}

func (l live) Outcome(ctx context.Context) (api.Summary, error) { return l.Summary(ctx) }

func (l live) Leak(ctx context.Context, q api.LeakRequest) (detect.Report, error) {
	return again(ctx, l, func() (detect.Report, error) { return l.Client.Leak(ctx, q) })
}

func (l live) Census(ctx context.Context, q api.CensusRequest) (api.CensusReply, error) {
	return again(ctx, l, func() (api.CensusReply, error) { return l.Client.Census(ctx, q) })
}

func again[T any](ctx context.Context, l live, ask func() (T, error)) (v T, err error) {
	first := true
	err = Retry(ctx, func() error {
		if !first && wake(ctx, l.s) != nil {
			return err
		}
		first = false
		v, err = ask()
		return err
	})
	return v, err
}

// A killed collector may take a tenth of a second to end with all its threads. Its socket takes clients until then, and
// breaks what they ask.
const (
	dying     = 300 * time.Millisecond
	dyingPoll = 20 * time.Millisecond
)

// Retry asks again when the collector was killed meanwhile: once, and as often as it may be the one that is ending which has
// answered again. If its successor dies of the question as well, it may be the question that kills.
func Retry(ctx context.Context, ask func() error) error {
	err := ask()
	for end := time.Now().Add(dying); errors.Is(err, api.ErrBroken); {
		last := time.Now().After(end)
		if err = ask(); last || !rest(ctx, dyingPoll) {
			return err
		}
	}
	return err
}

// local is an owner in this process with its lock.
type local struct {
	*api.Service
	owner *owner.Owner
	lock  *session.Lock
	stuck chan struct{} // closed when a question could not be stopped: what it holds goes with the process
}

// Query comes back in time also when the database does not.
func (l *local) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	done := make(chan error, 1)
	go func() { done <- l.Service.Query(ctx, q, w) }()
	select {
	case err := <-done:
		return err
	case <-l.stuck:
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("query: %w of %s", api.ErrTimeout, q.Timeout)
}

func (l *local) Close() error {
	select {
	case <-l.stuck:
		return nil
	default:
	}
	err := l.owner.Close()
	l.lock.Release()
	store.UnboundMemory()
	return err
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

// asItIs opens the database for reading.
func asItIs(ctx context.Context, s *session.Session, note string) (Backend, error) {
	lock, err := lockBusy(ctx, s, false, lockTimeout, never)
	if err != nil {
		return nil, err
	}
	stuck := make(chan struct{})
	var once sync.Once
	o, err := owner.Open(ctx, s, true, func(string) { once.Do(func() { close(stuck) }) })
	if err != nil {
		lock.Release()
		return nil, err
	}
	if err := store.BoundMemory(); err != nil {
		return nil, errors.Join(err, (&local{o.Service(), o, lock, stuck}).Close())
	}
	svc := o.Service()
	if note != "" {
		svc.Note = note + "; the answer has what is in the database"
	}
	return &local{svc, o, lock, stuck}, nil
}

// lockBusy waits for the lock as long as its holder gets on: a recovery may take minutes. One that writes nothing for
// as long as patience hangs. No lock and no error: the lock is needless by now, though somebody has it.
func lockBusy(ctx context.Context, s *session.Session, exclusive bool, patience time.Duration, needless func() bool) (*session.Lock, error) {
	limit := time.Now().Add(recoverLimit)
	for stored, since := s.Touched(), time.Now(); ; {
		wait, cancel := context.WithTimeout(ctx, min(patience, lockLook))
		lock, err := s.Lock(wait, exclusive)
		cancel()
		now := time.Now()
		if !errors.Is(err, session.ErrLocked) || ctx.Err() != nil || now.After(limit) {
			return lock, err
		}
		if needless() {
			return nil, nil
		}
		if last := s.Touched(); last.After(stored) {
			stored, since = last, now
		}
		if now.Sub(since) > patience {
			return nil, err
		}
	}
}

func never() bool { return false }

// recoverSession does what the collector could not do any more. Where the directory can't be written, the database is
// read as it is, and so is that of a job in another container, whose processes can't be seen from here: it may be alive.
func recoverSession(ctx context.Context, s *session.Session) error {
	if s.Elsewhere() {
		return nil
	}
	defer session.PrivateFiles()()
	// Who has finished it meanwhile may go on as a reader for as long as its own reader likes, a pager for instance.
	lock, err := lockBusy(ctx, s, true, lockTimeout, func() bool { return !s.Unfinished() })
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) {
		return nil
	}
	if err != nil || lock == nil {
		return err
	}
	defer lock.Release()
	if !s.Unfinished() { // the collector finished while we waited
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoverLimit)
	defer cancel()
	o, err := owner.Open(ctx, s, false, nil)
	if err != nil {
		return err
	}
	return errors.Join(o.Finish(ctx), o.Close())
}

// Finish tells the session's collector that the command has ended and returns what the session amounts to. A collector
// that isn't ready yet (the command was short) is waited for; for one that died the work is done here.
func Finish(ctx context.Context, s *session.Session) (api.Summary, error) {
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for api.Dial(ready, s.Socket()) != nil {
		select {
		case <-ready.Done():
			return summarizeHere(ctx, s)
		case <-time.After(finishPoll):
		}
	}
	sum, err := api.NewClient(s.Socket()).Finish(ctx)
	if err != nil {
		return summarizeHere(ctx, s)
	}
	return sum, nil
}

// finishPoll is shorter than readyPoll: the user's prompt waits for it.
const finishPoll = time.Millisecond

func summarizeHere(ctx context.Context, s *session.Session) (api.Summary, error) {
	b, err := Connect(ctx, s)
	if err != nil {
		return api.Summary{}, err
	}
	sum, err := b.Outcome(ctx)
	return sum, errors.Join(err, b.Close())
}

func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
