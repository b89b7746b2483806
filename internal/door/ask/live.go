package ask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/keeper"
	"github.com/memgauge/memgauge/internal/record/session"
)

const (
	readyTimeout = 5 * time.Second      // a collector opens its socket within some 20 ms
	readyPoll    = 5 * time.Millisecond // how often we look whether it has
)

// wake makes sure that a collector listens.
func wake(ctx context.Context, s *session.Session) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	up, dying := listens(ctx, s)
	for ; dying && keeper.Rest(ctx, readyPoll); up, dying = listens(ctx, s) {
		continue // while it has the session's lock, no other can begin
	}
	if up && !dying {
		return nil
	}
	cmd, err := keeper.SpawnCollector(s)
	if err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }() // ends with the child, or with this process
	for {
		if up, dying := listens(ctx, s); up && !dying {
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

// listens tells whether somebody accepts clients, and whether that is a collector that was killed and has not ended
// yet. It will never answer, and on a busy machine its end takes seconds.
func listens(ctx context.Context, s *session.Session) (up, dying bool) {
	c, err := sock.Dial(ctx, s.Socket())
	if err != nil {
		return false, false
	}
	defer c.Close()
	pid, err := sock.Peer(c)
	return true, err == nil && proc.New("/proc").Dying(pid)
}

// live is a client of a collector.
type live struct {
	*api.Client
	socket string
}

// Outcome is no more than the summary while the session lives.
func (l live) Outcome(ctx context.Context) (api.Summary, error) { return l.Summary(ctx) }

// A killed collector may take a tenth of a second until all its threads have ended. Until then its socket accepts
// clients, and their requests break.
const (
	dying     = 300 * time.Millisecond
	dyingPoll = 20 * time.Millisecond
)

// Retry repeats work whose collector was killed meanwhile, and that can begin again. It repeats it once for a new
// collector, and in addition while the answer may still come from the one that is ending. It stops there, because the
// request itself may be what kills collectors.
func Retry(ctx context.Context, ask func() error) error { return retry(ctx, always, ask) }

// retry is Retry as long as anew says that it can begin again.
func retry(ctx context.Context, anew func() bool, ask func() error) error {
	err := ask()
	for end := time.Now().Add(dying); errors.Is(err, api.ErrBroken) && anew(); {
		last := time.Now().After(end)
		if err = ask(); last || !keeper.Rest(ctx, dyingPoll) {
			return err
		}
	}
	return err
}
