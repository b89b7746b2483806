package bus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// asker is a connection of who asks.
type asker struct {
	place string
	over  time.Time // since when; zero while it is open
}

// place is what those connections have that are one asker's: a connection, and the next one where that was lost. The
// hub hears each place on its own, so who floods the hub fills its own line alone.
type place struct {
	conns int
	stop  func() // ends hearing it; nil while nobody does
}

// admitsAsker says whether there may be one more connection of who asks. One that is over keeps its place as long as it
// may leave bytes behind.
func (s *Server) admitsAsker(id uint64, at string) bool {
	s.mu.Lock()
	full := len(s.askers) >= forAskers
	s.mu.Unlock()
	if full {
		s.asking(time.Now())
	}
	s.mu.Lock()
	if len(s.askers) >= forAskers {
		s.mu.Unlock()
		return false
	}
	s.askers[id] = &asker{place: at}
	if s.places[at] == nil {
		s.places[at] = &place{}
	}
	s.places[at].conns++
	hear := s.hear
	s.mu.Unlock()
	if hear != nil {
		s.hearPlace(at, hear)
	}
	return true
}

// hearPlace has the hub hear a place before its first question comes: a question that nobody hears is refused.
func (s *Server) hearPlace(at string, hear func(string) (func(), error)) {
	stop, err := hear(at)
	if err != nil {
		s.o.Log.Warn("hear who asks", "error", err)
		return
	}
	s.mu.Lock()
	p := s.places[at]
	if p != nil && p.stop == nil {
		p.stop, stop = stop, nil
	}
	s.mu.Unlock()
	if stop != nil { // it is heard already, or gone
		stop()
	}
}

// leavesLocked forgets a connection of who asks, and its place with the last one. The caller holds the lock, and calls
// stop without it.
func (s *Server) leavesLocked(id uint64) (stop func()) {
	at := s.askers[id].place
	delete(s.askers, id)
	p := s.places[at]
	if p.conns--; p.conns > 0 {
		return nil
	}
	delete(s.places, at)
	return p.stop
}

// asking is the open connections of who asks. It forgets those that left nothing behind.
func (s *Server) asking(now time.Time) (open []*server.ConnInfo) {
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.askers))
	s.mu.Unlock()
	for _, id := range ids {
		if one := s.connection(id, server.ConnOpen); one != nil {
			open = append(open, one)
			continue
		}
		left := s.connection(id, server.ConnClosed) // nil at first: the server notes it in its own time
		if stop := s.ended(id, left, now); stop != nil {
			stop()
		}
	}
	return open
}

// ended notes that a connection of who asks is over, and forgets it when nothing of it is left.
func (s *Server) ended(id uint64, left *server.ConnInfo, now time.Time) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.askers[id]
	switch {
	case a == nil: // another look was first
	case left != nil && left.Pending == 0, !a.over.IsZero() && now.Sub(a.over) > writeTime:
		return s.leavesLocked(id)
	case a.over.IsZero():
		a.over = now
	}
	return nil
}

// HearAskers calls take for what is said to the hub: what comes from one place one after the other, what comes from
// several at once. In a NATS of the user's all is one line.
func (c *Conn) HearAskers(take func(Msg)) (stop func(), err error) {
	if c.inside == nil {
		return c.Hear(hubPrefix+">", take)
	}
	s := c.inside
	hear := func(at string) (func(), error) {
		stop, err := c.Hear(Hub(at, ">"), take)
		if err == nil {
			err = c.Flush(context.Background())
		}
		if err != nil {
			return nil, fmt.Errorf("hear a place: %w", err)
		}
		return stop, nil
	}
	s.mu.Lock()
	s.hear = hear
	before := slices.Collect(maps.Keys(s.places))
	s.mu.Unlock()
	for _, at := range before {
		s.hearPlace(at, hear)
	}
	return s.deafen, nil
}

// deafen ends hearing all places.
func (s *Server) deafen() {
	var stops []func()
	s.mu.Lock()
	s.hear = nil
	for _, p := range s.places {
		if p.stop != nil {
			stops = append(stops, p.stop)
			p.stop = nil
		}
	}
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}
