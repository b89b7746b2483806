package bus

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// What its readers have not taken yet waits in the hub's memory, once for each. A connection is ended beyond
// maxPending. So people, whose answers are large, have forAskers * maxPending = 8 GiB at the worst instant, whatever
// they and the nodes do. All connections together are looked at too: beyond maxWaiting those that read least are ended.
// Nodes hear only what people send, which that look bounds.
const (
	// maxPending bounds the bytes that wait for one connection: 64 KiB of each of 1,000 nodes, which is a part of an
	// answer.
	maxPending = 64 << 20
	// writeTime is how long the server tries to write to who does not read. So long the bytes stay, also those of a
	// connection that is ended.
	writeTime = 10 * time.Second
	// maxClosed is of how many former connections the server knows what they left: those of some looks.
	maxClosed = 1024
	// unreadLook is between looks at what waits for people. One at a time is asked for: 128 take some 0.2 ms.
	unreadLook = 100 * time.Millisecond
)

// maxWaiting bounds the bytes that wait for all together at a look: 16 readers that are as slow as one may be. A
// variable for tests.
var maxWaiting = 1 << 30

// connection is what the server knows of one; nil for nothing.
func (s *Server) connection(id uint64, state server.ConnState) *server.ConnInfo {
	all, err := s.ns.Connz(&server.ConnzOptions{CID: id, State: state, Username: true})
	if err != nil || len(all.Conns) == 0 {
		return nil
	}
	return all.Conns[0]
}

// shed ends the connections for which most waits, until the others are within the bound.
func (s *Server) shed(conns []*server.ConnInfo) {
	waits := 0
	for _, one := range conns {
		waits += one.Pending
	}
	if waits <= maxWaiting {
		return
	}
	conns = slices.SortedFunc(slices.Values(conns), func(a, b *server.ConnInfo) int {
		return cmp.Compare(b.Pending, a.Pending)
	})
	for _, one := range conns {
		if waits <= maxWaiting || one.AuthorizedUser == hubUser {
			continue
		}
		waits -= one.Pending
		if n := s.refuse(whyUnread); Seldom(n) {
			s.o.Log.Warn("ended a connection", "why", whyUnread, "bytes", one.Pending, "from", one.IP, "as",
				clip(one.Name), "so far", n)
		}
		_ = s.ns.DisconnectClientByID(one.Cid) // or it has gone by itself
	}
}
