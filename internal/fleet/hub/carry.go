package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

// What people may have carried to nodes, in bytes. A question has some hundred and counts as leastAsked, since a node
// works at its answer; a word about an answer, which lets 512 KiB more come, counts as leastSaid.
var (
	// placeShare is of one who asks: 256 questions a second, 8,192 at once, or 2,048 words a second.
	placeShare = rate{burst: 32 << 20, each: 1 << 20}
	// nodeShare is of a node, from all who ask: 2,048 questions a second. What waits for it in the hub may be 64 MiB.
	nodeShare = rate{burst: 32 << 20, each: 8 << 20}
	// someShare is of all nodes together: what waits in the hub for all may be 1 GiB.
	someShare = rate{burst: 256 << 20, each: 64 << 20}
	// everyShare is of questions to all nodes, each of which hears them: 256 a second of those with up to 512 bytes.
	// The burst is 512 MiB for 1,000 nodes.
	everyShare = rate{burst: 512 << 10, each: 128 << 10}
)

const (
	leastAsked = 4 << 10
	leastSaid  = 512
	// maxSaid bounds a word about an answer: a session's id, a secret and a number.
	maxSaid = 4 << 10
	// maxToAll bounds a question to all nodes: a statement of some pages.
	maxToAll = 64 << 10
)

// carrier counts what is carried to nodes.
type carrier struct {
	mu     *sync.Mutex
	places map[string]*bucket
	nodes  map[string]*bucket
	some   *bucket
	every  *bucket
}

func newCarrier() carrier {
	return carrier{&sync.Mutex{}, map[string]*bucket{}, map[string]*bucket{}, &bucket{}, &bucket{}}
}

// take says after which time so many bytes may be carried from a place; 0: now.
func (c carrier) take(place string, to bus.Onward, size int, now time.Time) (later time.Duration) {
	cost := float64(max(size, leastAsked))
	if to.Word {
		cost = float64(max(size, leastSaid))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := func(all map[string]*bucket, who string, r rate) *bucket {
		return remembered(all, who, func() {
			maps.DeleteFunc(all, func(_ string, b *bucket) bool { return b.full(r, now) })
		})
	}
	if later = of(c.places, place, placeShare).take(placeShare, cost, now); later > 0 {
		return later
	}
	if to.Node == "" {
		return c.every.take(everyShare, float64(max(size, leastSaid)), now)
	}
	if later = of(c.nodes, to.Node, nodeShare).take(nodeShare, cost, now); later > 0 {
		return later
	}
	return c.some.take(someShare, cost, now)
}

var (
	errNotHere = remedy.Add(fmt.Errorf("the hub carries no questions that change something: %w", api.ErrForbidden),
		"what changes a training is allowed on both sides: memgauge hub --allow eval, and on that machine --allow eval")
	errNoLake = remedy.Add(errors.New("the hub keeps no rows that can be asked"), "memgauge hub --lake keeps them")
	errToAll  = remedy.Add(fmt.Errorf("a question to all nodes of more than %d bytes", maxToAll),
		"ask one node, or the hub's lake (memgauge hub query)")
)

// carry takes what is for a node to it, or to the lake, and says so to who asks. Words about answers are not answered.
func (h *Hub) carry(ctx context.Context, lake *node.Lake, place string, to bus.Onward, m bus.Msg) {
	toLake := to.Node == fanout.LakeNode
	later, err := h.carries(place, to, len(m.Data), lake != nil, time.Now())
	switch {
	case errors.Is(err, api.ErrForbidden):
		h.refuse("a question", place, whyQuestion, err)
	case err != nil:
		h.refuse("what is for a node", place, whyAsksOften, err)
	case toLake && to.Word:
		lake.Flow(m)
	case toLake:
		lake.Take(ctx, place, m)
	default:
		if err = h.conn.Carry(to, m.Data); err != nil {
			h.o.Log.Warn("carry to a node", "error", err)
		}
	}
	if !to.Word {
		h.reply(m, fanout.Carried{Later: later, Error: api.Pack(err)})
	}
}

// carries says whether that is carried: after which time it may be, or why it never is.
func (h *Hub) carries(place string, to bus.Onward, size int, lake bool, now time.Time) (time.Duration, error) {
	switch {
	case to.Node == fanout.LakeNode && !lake:
		return 0, errNoLake
	case to.Node == fanout.LakeNode:
		if !to.Word && !h.askers.take(place, now) {
			return leastLater, errAsksOften
		}
		return 0, nil // words cost next to nothing
	case to.Changes && !h.o.Grant:
		return 0, errNotHere
	case to.Word && size > maxSaid:
		return 0, errAsksOften
	case to.Node == "" && size > maxToAll:
		return 0, errToAll
	}
	if later := h.carrier.take(place, to, size, now); later > 0 {
		return later, errAsksOften
	}
	return 0, nil
}
