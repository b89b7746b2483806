package bus

import (
	"cmp"
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
	sent  int64     // messages, as of the last look
}

// place is what those connections have that are one asker's: a connection, and the next one where that was lost. The
// hub hears each place on its own, so who floods the hub fills its own line alone.
type place struct {
	conns int
	stop  func()  // ends hearing it; nil while nobody does
	said  float64 // messages, less those that it has had the time for
}

// Bounds of what people say to the hub, which answers all of them from one line. A connection alone would be none: who
// asks may have many.
const (
	// placeRate is of one place, in messages a second, and placeBurst at once: what may be carried from it (package
	// hub) is 2,048 words about answers a second.
	placeRate, placeBurst = 4096, 8192
	// peopleRate and peopleBurst are of all: two thirds of what a hub on two busy cores answers. Beyond it those who
	// have said most are ended.
	peopleRate, peopleBurst = 32_768, 32_768
)

// calm ends the connections of those who say too much to the hub.
func (s *Server) calm(conns []*server.ConnInfo, now time.Time) {
	for _, id := range s.loud(conns, now) {
		if n := s.refuse(whyFlood); Seldom(n) {
			s.o.Log.Warn("ended a connection of who asks", "why", whyFlood, "so far", n)
		}
		_ = s.ns.DisconnectClientByID(id) // or it has gone by itself
	}
}

// loud counts what people have said since the look before, and gives the connections that are to be ended.
func (s *Server) loud(conns []*server.ConnInfo, now time.Time) (ids []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := max(0, now.Sub(s.heard).Seconds())
	s.heard = now
	all := max(0, s.said-passed*peopleRate)
	for _, p := range s.places {
		p.said = max(0, p.said-passed*placeRate)
	}
	of := map[*place][]uint64{}
	for _, one := range conns {
		a := s.askers[one.Cid]
		if a == nil { // another look was first
			continue
		}
		p := s.places[a.place]
		came := float64(one.InMsgs - a.sent)
		a.sent, p.said, all = one.InMsgs, p.said+came, all+came
		of[p] = append(of[p], one.Cid)
	}
	loudest := slices.SortedFunc(maps.Keys(of), func(a, b *place) int { return cmp.Compare(b.said, a.said) })
	for _, p := range loudest {
		if p.said <= placeBurst && all <= peopleBurst {
			break
		}
		ids, all = append(ids, of[p]...), all-p.said
	}
	s.said = max(0, all)
	return ids
}

// admitsAsker says whether there may be one more connection of who asks. One that is over keeps its place as long as it
// may leave bytes behind.
func (s *Server) admitsAsker(id uint64, at string) bool {
	s.mu.Lock()
	full := len(s.askers) >= forAskers
	s.mu.Unlock()
	if full {
		now := time.Now()
		s.makeRoom(s.asking(now), now)
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
	hear, before := s.hear, s.beforeLocked(at)
	s.mu.Unlock()
	for _, id := range before {
		_ = s.ns.DisconnectClientByID(id) // or it has gone by itself
	}
	if hear != nil {
		s.hearPlace(at, hear)
	}
	return true
}

// askerIdle is how long a connection of who asks has said nothing when it may be ended for another one, which takes its
// place: pages, screens and commands ask every few seconds. A variable for tests.
var askerIdle = 10 * time.Second

// makeRoom ends one idle connection of who asks, if all places are taken. Its owner's next question connects again.
func (s *Server) makeRoom(open []*server.ConnInfo, now time.Time) {
	idle := idlest(open, now)
	s.mu.Lock()
	if idle == nil || s.askers[idle.Cid] == nil || len(s.askers) < forAskers {
		s.mu.Unlock()
		return
	}
	stop := s.leavesLocked(idle.Cid)
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	s.refuse(whyIdle)
	_ = s.ns.DisconnectClientByID(idle.Cid) // or it has gone by itself
}

// idlest is the connection that another may take the place of: of the address that has most of them, since somebody may
// open many and say nothing, that which has said nothing for longest; nil where all ask, or are being answered.
func idlest(open []*server.ConnInfo, now time.Time) (found *server.ConnInfo) {
	from := map[string]int{}
	for _, one := range open {
		from[one.IP]++
	}
	for _, one := range open {
		if one.Pending > 0 || now.Sub(one.LastActivity) < askerIdle {
			continue
		}
		if found == nil || cmp.Or(from[one.IP]-from[found.IP], found.LastActivity.Compare(one.LastActivity)) > 0 {
			found = one
		}
	}
	return found
}

// beforeLocked are the connections that a place has had before the newest of mostEars: who comes back has lost them.
func (s *Server) beforeLocked(at string) (ids []uint64) {
	for id, a := range s.askers {
		if a.place == at && a.over.IsZero() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:max(0, len(ids)-mostEars)]
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
