package metrics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/detect"
)

const (
	// freshness is how old a reading may be that is given again: two scrapers at once cost the session one reading.
	freshness = time.Second
	// readPatience bounds one reading, as Prometheus' own limit of a scrape does.
	readPatience = 10 * time.Second
	// endPoll is how often it is looked whether the job goes on: one look at a file and a lock.
	endPoll = 2 * time.Second
)

// Source reads a session again and again, through the death of its collector and the end of the job. The last values of
// a job that has ended are kept, and nothing is asked any more.
type Source struct {
	connect func(context.Context) (api.Session, error)

	mu    sync.Mutex
	s     api.Session // nil: to be found
	last  Reading
	at    time.Time
	final bool // last is all there will be

	verdict detect.Report
	judged  time.Time
	cost    time.Duration // of the last judgement
}

// NewSource reads the session that connect finds, each time anew when nobody answers any more.
func NewSource(connect func(context.Context) (api.Session, error)) *Source {
	return &Source{connect: connect}
}

// Read gives the session's figures, at most a second old.
func (s *Source) Read(ctx context.Context) (Reading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readPatience, fmt.Errorf("read the session: %w of %s", api.ErrTimeout,
		readPatience))
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final || time.Since(s.at) < freshness {
		return s.last, nil
	}
	reading, err := s.read(ctx)
	if errors.Is(err, api.ErrBroken) { // the collector was killed, or ends with the job: somebody else answers now
		s.drop()
		reading, err = s.read(ctx)
	}
	if err != nil {
		s.drop()
		return Reading{}, err
	}
	s.last, s.at = reading, time.Now()
	if s.final = !reading.Live; s.final {
		s.drop()
	}
	return reading, nil
}

func (s *Source) read(ctx context.Context) (Reading, error) {
	if s.s == nil {
		found, err := s.connect(ctx)
		if err != nil {
			return Reading{}, err
		}
		s.s = found
	}
	return Read(ctx, s.s, s.leak)
}

const (
	// judgeEvery is as often as a verdict on thousands of steps can change.
	judgeEvery = 10 * time.Second
	// judgeShare bounds the processor time that judging a long session takes, as a part of one.
	judgeShare = 50
)

// leak returns the session's verdict, at the end of the job a new one. In a live job a verdict is reused for a while,
// and longer the more CPU time it has cost.
func (s *Source) leak(ctx context.Context, from api.Session) (detect.Report, error) {
	end, err := from.End(ctx)
	if err != nil {
		return detect.Report{}, err
	}
	if end.Live && time.Since(s.judged) < max(judgeEvery, judgeShare*s.cost) {
		return s.verdict, nil
	}
	began := time.Now()
	report, err := from.Leak(ctx, api.LeakRequest{})
	if err == nil {
		s.verdict, s.judged, s.cost = report, time.Now(), time.Since(began)
	}
	return report, err
}

func (s *Source) drop() {
	if s.s != nil {
		_ = s.s.Close() // it was only asked
		s.s = nil
	}
}

// Close lets go of the session.
func (s *Source) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

// Live asks whether the job goes on. Who can't tell says yes.
func (s *Source) live(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final || s.s == nil {
		return !s.final
	}
	end, err := s.s.End(ctx)
	return err != nil || end.Live
}

// UntilEnd returns when the job has ended and its last values have been read, or when ctx ends.
func (s *Source) UntilEnd(ctx context.Context) error {
	tick := time.NewTicker(endPoll)
	defer tick.Stop()
	for {
		if !s.live(ctx) {
			if r, err := s.Read(ctx); err == nil && !r.Live {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
