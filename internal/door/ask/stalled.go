package ask

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// ErrStalled is a collector that is there and does nothing: it was stopped, or hangs. An answer may take as long as it
// needs while its collector shows life; without this, who asks a stopped one would wait for ever.
var ErrStalled = errors.New("the session's collector does not answer")

const (
	lookFirst = time.Second     // most answers are there before
	lookAgain = 2 * time.Second // between looks; each is a small question to the collector
)

// silent is how long a collector may leave that small question unanswered, which needs no database: on a machine with
// thirty times the work of its cores it takes a second. It is a variable for tests.
var silent = 15 * time.Second

// watched has a collector answer as long as it shows life.
func (l live) watched(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	looking, enough := context.WithCancel(ctx)
	var look sync.WaitGroup
	look.Go(func() {
		if err := l.stalls(looking); err != nil {
			cancel(err)
		}
	})
	err := ask(ctx)
	enough()
	look.Wait()
	cancel(nil)
	return err
}

// stalls returns why a collector will not answer, or nil when ctx ends.
func (l live) stalls(ctx context.Context) error {
	wait, stopped := lookFirst, 0
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		wait = lookAgain
		pid, state := l.process(ctx)
		if state != 'T' && state != 't' {
			stopped = 0
		} else if stopped++; stopped > 1 { // once may be a debugger that attaches
			return remedy.Add(fmt.Errorf("%w: process %d is stopped", ErrStalled, pid),
				fmt.Sprintf("kill -CONT %d lets it go on", pid))
		} else {
			wait = lookFirst
			continue
		}
		if err := l.nod(ctx); errors.Is(err, ErrStalled) {
			return remedy.Add(err,
				fmt.Sprintf("process %d hangs: kill -9 %d has another begin, and no row is lost", pid, pid))
		}
	}
}

// process is the collector's, and its state in /proc; 0 where that is not known.
func (l live) process(ctx context.Context) (pid int, state byte) {
	ctx, cancel := context.WithTimeout(ctx, lookFirst) // one that hangs for long takes no more connections
	defer cancel()
	c, err := sock.Dial(ctx, l.socket)
	if err != nil {
		return 0, 0
	}
	defer c.Close()
	if pid, err = sock.Peer(c); err != nil {
		return 0, 0
	}
	stat, err := proc.New("/proc").Stat(pid)
	if err != nil {
		return pid, 0
	}
	return pid, stat.State
}

// nod asks for what needs no database. That it is refused, or that nobody is there, is for the question itself to tell.
func (l live) nod(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, silent, ErrStalled)
	defer cancel()
	_, err := l.About(ctx)
	return err
}

// asking calls ask with a database; a collector has to show life meanwhile.
func asking(ctx context.Context, db database, ask func(context.Context, database) error) error {
	if l, is := db.(live); is {
		return l.watched(ctx, func(ctx context.Context) error { return ask(ctx, l) })
	}
	return ask(ctx, db)
}
