package ask

import (
	"context"
	"errors"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/record/session"
)

// finishPoll is shorter than readyPoll: the user's prompt waits for it.
const finishPoll = time.Millisecond

// finishSay is later than sayAfter: a short run's rows are stored and judged only now.
const finishSay = 2 * time.Second

// Finish tells the session's collector that the command has ended and returns the summary. It waits for a collector
// that isn't ready yet, since the command may have been short. If the collector died, this process finishes the
// session.
func Finish(ctx context.Context, s *session.Session) (api.Summary, error) {
	wait := time.AfterFunc(finishSay, func() { tell(ctx, "waiting until what the job left is stored and judged") })
	defer wait.Stop()
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for api.Dial(ready, s.Socket()) != nil {
		select {
		case <-ready.Done():
			return summarizeHere(ctx, s)
		case <-time.After(finishPoll):
		}
	}
	var sum api.Summary
	collector := live{api.NewClient(s.Socket()), s.Socket()}
	err := collector.watched(ctx, func(ctx context.Context) (err error) {
		sum, err = collector.Finish(ctx)
		return err
	})
	if err != nil {
		return summarizeHere(ctx, s)
	}
	return sum, nil
}

// summarizeHere summarizes a session whose collector failed to.
func summarizeHere(ctx context.Context, s *session.Session) (api.Summary, error) {
	b, err := Connect(ctx, s)
	if err != nil {
		return api.Summary{}, err
	}
	sum, err := b.Outcome(ctx)
	return sum, errors.Join(err, b.Close())
}
