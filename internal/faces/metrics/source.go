package metrics

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

const (
	// freshness is how old a reading may be that is reused, so that two scrapers at once cost the session one reading.
	freshness = time.Second
	// readPatience bounds one reading, as Prometheus' own limit of a scrape does.
	readPatience = 10 * time.Second
	// endPoll is the interval of checks whether the job still runs: each reads a file and tries a lock.
	endPoll = 2 * time.Second
)

// Source reads a session repeatedly, also after the job ended. It keeps the last values of a job
// that has ended, and then sends no more requests.
type Source struct {
	connect func(context.Context) (api.Session, error)

	mu    sync.Mutex
	s     api.Session // nil: not connected
	last  Reading
	at    time.Time
	final bool // last is all there will be

	verdict detect.Report
	judged  time.Time
	cost    time.Duration // of the last judgement
}

// NewSource makes a source of the session that connect opens. It calls connect again when the session stops answering.
func NewSource(connect func(context.Context) (api.Session, error)) *Source {
	return &Source{connect: connect}
}

// Read returns the session's metrics, at most a second old.
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
	// judgeEvery is the shortest interval of verdicts: one on thousands of steps doesn't change faster.
	judgeEvery = 10 * time.Second
	// judgeShare bounds the CPU time for verdicts on a long session to this part of a core.
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
		_ = s.s.Close() // it was only read: nothing can be lost
		s.s = nil
	}
}

// Close closes the session.
func (s *Source) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

// live reports whether the job still runs; true if that can't be found out.
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
