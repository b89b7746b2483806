package bus

import (
	"cmp"
	"net/netip"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/memgauge/memgauge/internal/base/order"
)

// Bounds of the connections that have not shown a token yet. Each lasts 5 s at most, which TLS across an ocean may
// take; without a bound who can reach the port would hold all places. Beyond it the oldest are ended: an honest one is
// done in a tenth of a second. Variables for tests.
var (
	// strangersOf is of one address: a cluster behind one that joins at once, a part of which comes a second later.
	strangersOf = 1024
	// maxStrangers is of all. Where they are more, those addresses that have most give up most.
	maxStrangers = 2048
)

// Network is what one machine has of addresses: of IPv6 it may choose the lower half.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := 32
	if a.Is6() {
		bits = 64
	}
	at, _ := a.WithZone("").Prefix(bits) // the zero one, for no address
	return at
}

// strangers are the connections of those that have not said who they are, and how many others there are.
func strangers(conns []*server.ConnInfo) (list []*server.ConnInfo, others int) {
	for _, one := range conns {
		if one.AuthorizedUser == "" {
			list = append(list, one)
		}
	}
	return list, len(conns) - len(list)
}

// beyond gives those of strangers' connections that are too many.
func beyond(list []*server.ConnInfo) (out []*server.ConnInfo) {
	by := map[netip.Prefix][]*server.ConnInfo{}
	for _, one := range list {
		at, _ := netip.ParseAddr(one.IP)
		by[Network(at)] = append(by[Network(at)], one)
	}
	share, all := strangersOf, 0
	for ; share > 1; share /= 2 {
		all = 0
		for _, of := range by {
			all += min(len(of), share)
		}
		if all <= maxStrangers {
			break
		}
	}
	for _, of := range by {
		if len(of) <= share {
			continue
		}
		order.By(of, func(a, b *server.ConnInfo) int { return cmp.Compare(a.Cid, b.Cid) })
		out = append(out, of[:len(of)-share]...)
	}
	return out
}

// endStrangers ends them.
func (s *Server) endStrangers(conns []*server.ConnInfo) {
	list, others := strangers(conns)
	s.letIn.Store(int64(others))
	for _, one := range beyond(list) {
		if n := s.refuse(whyStranger); Seldom(n) {
			s.o.Log.Warn("ended a connection", "why", whyStranger, "from", one.IP, "so far", n)
		}
		_ = s.ns.DisconnectClientByID(one.Cid) // or it has gone by itself
	}
}

// crowded says that so many have come since the last look that it is worth another.
func (s *Server) crowded() bool {
	return s.ns.NumClients() > int(s.letIn.Load())+min(strangersOf, maxStrangers)
}
