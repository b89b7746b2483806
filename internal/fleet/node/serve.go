package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// Rows answers for what a hub keeps: requests of package api, about the rows that the selection leaves. rights are
// those of whoever asks.
type Rows func(of fanout.Select, rights api.Rights) http.Handler

// Lake answers questions to the rows that a hub keeps. Of one who asks it works on one at a time, so that others have
// their turn.
type Lake struct {
	desk
	mu    sync.Mutex
	seats map[string]*seats // by who asks
}

// seats are what one who asks may have of a desk; nil has no bound of its own.
type seats struct {
	work chan struct{} // what is worked on
	line chan struct{} // that and what waits
	ear  string        // where the answers go
}

const (
	// seatLine bounds what one who asks has in the line: a page asks some 10 at once.
	seatLine = (maxAnswers + maxWaits) / 4
	// seatTime is how long a question waits for those of the same asker, as long as it does for others'.
	seatTime = 30 * time.Second
	maxSeats = 256 // twice the places that a hub has for who asks
)

// NewLake makes one. refused is called for each question that may not be asked.
func NewLake(conn *bus.Conn, log *slog.Logger, rows Rows, refused func()) *Lake {
	l := &Lake{desk: newDesk(fanout.LakeNode, log), seats: map[string]*seats{}}
	l.conn, l.onRefusal = conn, refused
	l.work = func(ctx context.Context, q fanout.Question, a *answer) {
		s := fanout.LakeSession()
		l.reply(ctx, q, fanout.Part{Kind: fanout.Head, ID: s.About.ID, Session: &s})
		w := l.writer(ctx, q, a, s.About.ID)
		stop := w.live()
		l.handle(ctx, q, w, rows(q.Of, a.rights))
		stop()
		w.finish()
		l.reply(ctx, q, fanout.Part{Kind: fanout.Done, Count: 1})
	}
	return l
}

// Take answers a question of who asks from a place, in the background.
func (l *Lake) Take(ctx context.Context, place string, m bus.Msg) {
	l.take(ctx, m, api.MayQuery, l.seatsOf(place))
}

// Flow hears how far the asking side has read.
func (l *Lake) Flow(m bus.Msg) { l.flow(m) }

// Wait waits for all answers to end.
func (l *Lake) Wait() { l.answers.Wait() }

func (l *Lake) seatsOf(place string) *seats {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seats[place] == nil {
		if len(l.seats) >= maxSeats {
			for at, s := range l.seats {
				if len(s.line) == 0 {
					delete(l.seats, at)
				}
			}
		}
		l.seats[place] = &seats{make(chan struct{}, 1), make(chan struct{}, seatLine), bus.Ear(place)}
	}
	return l.seats[place]
}

// queue takes a place in the line, if there is one.
func (s *seats) queue() bool {
	if s == nil {
		return true
	}
	select {
	case s.line <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *seats) leave() {
	if s != nil {
		<-s.line
	}
}

// sit waits for the seat.
func (s *seats) sit(ctx context.Context) (rise func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	late := time.NewTimer(seatTime)
	defer late.Stop()
	select {
	case s.work <- struct{}{}:
		return func() { <-s.work }, nil
	case <-late.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, fmt.Errorf("answer: %w", context.Cause(ctx))
	}
}
