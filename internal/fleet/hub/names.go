package hub

import (
	"errors"
	"maps"
	"net/netip"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
)

// How many new names there may be. Each is kept, written to the disk and told to who asks, and whoever has the join
// token can make keys and names without end. A name that is known already needs none of this, so nodes that come back
// are never refused. A cluster of 1,000 nodes joins at once, also from behind one address; one address can't take
// the places of others, and needs ten hours for as many names as there may be. Ten thousand from several addresses may
// come at once, and leave room for as many again.
var (
	namesOfOne = rate{burst: 1024, each: 0.5}
	namesOfAll = rate{burst: 10_240, each: 4}
)

// maxSources bounds the addresses that are told apart; those beyond share what one has.
const maxSources = 4096

// Why a name is not given, or a process not known.
var (
	errProcesses = errors.New("there are too many processes of one node")
	errOther     = errors.New("the name belongs to another node")
	errKey       = errors.New("the node's key has too many names")
	errFull      = errors.New("there are too many nodes")
	errSaid      = errors.New("all nodes together say too much of themselves, and this one most")
	errHasty     = errors.New("too many new nodes in a short time")
	errNoNode    = errors.New("the hub knows no such node")
	errHere      = errors.New("the node is connected: end it first")
	errUnkept    = errors.New("the roster can't be written")
)

// originOf is what one machine has of addresses, as a text; "" for none.
func originOf(from netip.Addr) string {
	if at := bus.Network(from); at.IsValid() {
		return at.String()
	}
	return ""
}

// sources are where new names came from lately.
type sources struct {
	all bucket
	of  map[netip.Prefix]*bucket
}

// take says whether a new name may come from an address.
func (s *sources) take(from netip.Addr, now time.Time) bool {
	if s.of == nil {
		s.of = map[netip.Prefix]*bucket{}
	}
	at := bus.Network(from)
	if s.of[at] == nil && len(s.of) >= maxSources {
		maps.DeleteFunc(s.of, func(_ netip.Prefix, b *bucket) bool { return b.full(namesOfOne, now) })
		if len(s.of) >= maxSources {
			at = netip.Prefix{}
		}
	}
	if s.of[at] == nil {
		s.of[at] = &bucket{}
	}
	return s.of[at].take(namesOfOne, 1, now) == 0 && s.all.take(namesOfAll, 1, now) == 0
}
