package service

import (
	"context"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
)

const (
	// eventsEvery is the interval of queries for new events while a client follows them. A query takes some 10 ms, so
	// following costs at most 1 % of a core.
	eventsEvery = time.Second
	// eventsAtOnce bounds what is held of them.
	eventsAtOnce = 1000
)

// Events returns the rows of memgauge.events, and those that are added while the session lives. Events of the same µs
// are distinguished by their position.
func (s *Service) Events(ctx context.Context, q api.EventsRequest, take func(api.Event) error) error {
	told := cursor{since: q.Since.UnixMicro()}
	if q.Since.IsZero() {
		told.since = 0
	}
	for {
		live := s.S != nil && s.S.Live() // before the query, so that no event before the end is missed
		more, err := s.newEvents(ctx, &told, take)
		if err != nil {
			return fmt.Errorf("events: %w", err)
		}
		if more {
			continue
		}
		if !q.Follow || !live {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("events: %w", api.ErrCanceled)
		case <-time.After(eventsEvery):
		}
	}
}

// cursor is the position of the last event that was returned: all before since, and the first seen events at since.
type cursor struct {
	since int64 // µs since the epoch
	seen  int
}

const eventsSQL = `SELECT epoch_us(ts) AS t, pid, name, text, coalesce(code, '') AS code
	FROM memgauge.events WHERE epoch_us(ts) >= %d
	ORDER BY ts, pid, name, text LIMIT %d OFFSET %d`

func (s *Service) newEvents(ctx context.Context, told *cursor, take func(api.Event) error) (more bool, err error) {
	type row struct {
		Time       int64 `json:"t"`
		PID        int   `json:"pid"`
		Name, Text string
		Code       string
	}
	rows, err := api.Rows[row](ctx, s, fmt.Sprintf(eventsSQL, told.since, eventsAtOnce, told.seen))
	if err != nil {
		return false, err
	}
	for _, r := range rows {
		if r.Time > told.since {
			told.since, told.seen = r.Time, 0
		}
		told.seen++
		if err := take(api.Event{Time: time.UnixMicro(r.Time).UTC(), PID: r.PID, Name: r.Name,
			Text: r.Text, Code: r.Code}); err != nil {
			return false, err
		}
	}
	return len(rows) == eventsAtOnce, nil
}
