package bus

import (
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Bounds of what a node sends, over all its connections; calm bounds what people do.
const (
	// maxRate bounds the messages a second: an answer of 640 MB/s has so many.
	maxRate = 10_000
	// Pace is how many messages a second a node's own answers have, all its processes together: whatever it is asked,
	// they are no flood. It is 320 MB/s.
	Pace = maxRate / 2
	// floodLook is between looks at how many came. Until the next, a node sends as it likes.
	floodLook = time.Second
	// floodFor is how long a node is not let in after a flood.
	floodFor = time.Minute
)

// rates are how many messages each connection had sent at the last look.
type rates struct {
	at   time.Time
	sent map[uint64]int64 // by the connection's number
}

// watch looks until the bus ends.
func (s *Server) watch() {
	tick, often := time.NewTicker(floodLook), time.NewTicker(unreadLook)
	defer tick.Stop()
	defer often.Stop()
	r := rates{at: time.Now()}
	for {
		select {
		case now := <-tick.C:
			s.stopFloods(&r, now)
		case now := <-often.C:
			people := s.asking(now)
			s.calm(people, now)
			s.shed(people)
			if s.crowded() {
				if all, err := s.connections(); err == nil {
					s.endStrangers(all)
				}
			}
		case <-s.over:
			return
		}
	}
}

// stopFloods ends the connections of who has sent too much since the last look. A node is not let in for a while then.
func (s *Server) stopFloods(r *rates, now time.Time) {
	conns, err := s.connections()
	if err != nil {
		return
	}
	s.endStrangers(conns)
	most := int64(maxRate * max(1, now.Sub(r.at).Seconds()))
	sent, came := map[uint64]int64{}, map[string]int64{}
	for _, one := range conns {
		sent[one.Cid] = one.InMsgs
		came[one.AuthorizedUser] += one.InMsgs - r.sent[one.Cid] // the key of a node
	}
	r.at, r.sent = now, sent
	for _, one := range conns {
		why := whyFlood
		switch {
		case one.AuthorizedUser == hubUser || asks(one):
			continue
		case came[one.AuthorizedUser] > most:
		case one.NumSubs > nodeSubs:
			why = whyHears
		default:
			continue
		}
		s.shutOut(one.AuthorizedUser, now.Add(floodFor))
		if n := s.refuse(why); Seldom(n) {
			s.o.Log.Warn("ended a connection", "why", why, "from", one.IP, "as", clip(one.Name), "so far", n)
		}
		_ = s.ns.DisconnectClientByID(one.Cid) // or it has gone by itself
	}
	s.shed(conns)
}

// connections are all that are open.
func (s *Server) connections() ([]*server.ConnInfo, error) {
	all, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: maxConnections})
	if err != nil {
		return nil, err
	}
	return all.Conns, nil
}

// asks says whether it is a connection of who asks.
func asks(c *server.ConnInfo) bool { return strings.HasPrefix(c.AuthorizedUser, askUser) }

func (s *Server) shutOut(key string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.floods) >= maxConnections {
		s.floods = map[string]time.Time{}
	}
	s.floods[key] = until
}

// flooded says whether a node is not let in for what it has sent.
func (s *Server) flooded(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, known := s.floods[key]
	if known && now.After(until) {
		delete(s.floods, key)
	}
	return known && !now.After(until)
}
