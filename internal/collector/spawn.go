package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
)

// maxLog bounds collector.log; a new collector begins it anew when it is larger.
const maxLog = 1 << 20

// Spawn starts a collector for the session as a process of its own, which survives the terminal and its parent. When one
// is there already, the new one ends at once.
func Spawn(s *session.Session) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start collector: %w", err)
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW | syscall.O_NONBLOCK // no link, no pipe
	if st, err := os.Stat(s.Log()); err == nil && st.Size() > maxLog {
		flags |= os.O_TRUNC
	}
	log, err := os.OpenFile(s.Log(), flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start collector: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(exe, "collector", "--session", s.Dir)
	cmd.Args[0] = "memgauge" // what ps shows, and what a test binary goes by
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start collector: %w", err)
	}
	return cmd, nil
}

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
	readyTimeout = 5 * time.Second      // a collector opens its socket within some 20 ms
	readyPoll    = 5 * time.Millisecond // how often we look whether it has
	lockTimeout  = 10 * time.Second     // a collector that is finishing needs to drain and to checkpoint
	recoverLimit = 10 * time.Minute     // the full rings of some hundred processes after a crash
)

// Connect finds who answers for the session: the collector of a live one (started anew if it died), or this process
// itself for a finished one, whose rings it first drains.
func Connect(ctx context.Context, s *session.Session) (Backend, error) {
	if s.Live() {
		err := wake(ctx, s)
		if err == nil {
			return live{api.NewClient(s.Socket())}, nil
		}
		if s.Live() {
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
	cmd, err := Spawn(s)
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

// live is a client of a collector.
type live struct{ *api.Client }

func (live) Close() error { return nil }

// local is an owner in this process with its lock.
type local struct {
	*api.Service
	owner *Owner
	lock  *session.Lock
}

func (l *local) Close() error {
	err := l.owner.Close()
	l.lock.Release()
	return err
}

// finished opens a finished session: for reading, after what was left to do has been done.
func finished(ctx context.Context, s *session.Session) (Backend, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if s.Unfinished() {
		if err := recoverSession(ctx, s); err != nil {
			return nil, err
		}
	}
	lock, err := s.Lock(ctx, false)
	if err != nil {
		return nil, err
	}
	owner, err := Open(ctx, s, true)
	if err != nil {
		lock.Release()
		return nil, err
	}
	return &local{owner.Service(), owner, lock}, nil
}

// recoverSession does what the collector could not do any more. Where the directory can't be written, the database is
// read as it is.
func recoverSession(ctx context.Context, s *session.Session) error {
	lock, err := s.Lock(ctx, true)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	if !s.Unfinished() { // the collector finished while we waited
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoverLimit)
	defer cancel()
	owner, err := Open(ctx, s, false)
	if err != nil {
		return err
	}
	return errors.Join(owner.Finish(ctx), owner.Close())
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
