package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/owner"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

const (
	lockTimeout  = 10 * time.Second      // a holder of the lock that writes nothing for so long hangs
	lockLook     = 50 * time.Millisecond // interval of the checks whether its holder makes progress
	sayAfter     = time.Second           // a user who waits longer is told for what
	recoverLimit = 10 * time.Minute      // the full rings of some hundred processes after a crash
)

// local is an owner in this process with its lock.
type local struct {
	*service.Service
	owner *owner.Owner
	lock  *session.Lock
	stuck *service.Stuck
}

// Query returns in time even if the database doesn't.
func (l *local) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	return l.stuck.Query(ctx, l.Service, q, w)
}

func (l *local) Close() error {
	if l.stuck.Hangs() {
		return nil
	}
	err := l.owner.Close()
	l.lock.Release()
	store.UnboundMemory()
	return err
}

// inDatabase ends a note about rows that could not be stored.
const inDatabase = "; the answer has what is in the database"

// asItIs opens the database for reading.
func asItIs(ctx context.Context, s *session.Session, note string) (database, error) {
	lock, err := lockBusy(ctx, s, false, lockTimeout, never)
	if err != nil {
		return nil, err
	}
	stuck := service.NewStuck()
	o, err := owner.Open(ctx, s, true, stuck.Tell)
	if err != nil {
		lock.Release()
		return nil, err
	}
	if err := store.BoundMemory(); err != nil {
		return nil, errors.Join(err, (&local{o.Service(), o, lock, stuck}).Close())
	}
	svc := o.Service()
	if note != "" {
		svc.Note = note + inDatabase
	}
	return &local{svc, o, lock, stuck}, nil
}

// lockBusy waits for the lock as long as its holder gets on: storing and judging what was left may take minutes. A
// holder that writes nothing and takes no CPU time for the time of patience hangs. If both lock and error are nil, the
// lock is no longer needed, though somebody holds it.
func lockBusy(ctx context.Context, s *session.Session, exclusive bool, patience time.Duration,
	needless func() bool) (*session.Lock, error) {
	begun := time.Now()
	limit := begun.Add(recoverLimit)
	said := false
	for done, since := progress(s), begun; ; {
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
		if more := progress(s); more != done {
			done, since = more, now
		}
		if now.Sub(since) > patience {
			return nil, err
		}
		if !said && now.Sub(begun) > sayAfter {
			said = true
			tell(ctx, waitingFor(s))
		}
	}
}

// advance is how far the holder of a session's lock has come.
type advance struct {
	stored time.Time
	ticks  uint64 // of CPU time
}

func progress(s *session.Session) (a advance) {
	a.stored = s.Touched()
	if h, ok := s.Holder(); ok {
		if u, err := proc.New("/proc").Usage(h.Process.PID); err == nil {
			a.ticks = u.UserTicks + u.SystemTicks
		}
	}
	return a
}

// waitingFor says in a line what the session's lock is waited for.
func waitingFor(s *session.Session) string {
	h, ok := s.Holder()
	if !ok {
		return "waiting for another process that uses session " + s.Meta.Name
	}
	return fmt.Sprintf("waiting for process %d, which %s", h.Process.PID, plain.Line(h.Doing))
}

func never() bool { return false }

// recoverSession finishes a session whose collector died first. If the directory isn't writable, the database is read
// as it is. So is that of a job in another container: its processes can't be seen from here, and may be alive.
func recoverSession(ctx context.Context, s *session.Session) error {
	if s.Elsewhere() {
		return nil
	}
	defer session.PrivateFiles()()
	// Another process may have finished the session meanwhile and still hold the lock as a reader, for as long as a
	// pager shows its output.
	lock, err := lockBusy(ctx, s, true, lockTimeout, func() bool { return !s.Unfinished() })
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) {
		return nil
	}
	if err != nil || lock == nil {
		return err
	}
	defer lock.Release()
	lock.Say("stores and judges what was left of the session")
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
