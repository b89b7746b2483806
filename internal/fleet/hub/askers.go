package hub

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

// askShare is how often one who asks may ask the hub: a page or a screen does some times a second, and a list of 10,000
// nodes takes some 10 ms to make.
var askShare = rate{burst: 64, each: 8}

var errAsksOften = remedy.Add(errors.New("that is more than one who asks may have at a time"), "ask again later")

// askers are what those who ask have left of their share, by place.
type askers struct {
	mu  *sync.Mutex
	all map[string]*bucket
}

func newAskers() askers { return askers{&sync.Mutex{}, map[string]*bucket{}} }

func (a askers) take(place string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := remembered(a.all, place, func() {
		maps.DeleteFunc(a.all, func(_ string, b *bucket) bool { return b.full(askShare, now) })
	})
	return one.take(askShare, 1, now) == 0
}

// Questions to the hub.
const (
	asksNodes  = "nodes"
	asksStatus = "status"
	asksLeak   = "leak"
)

// answerAskers answers who asks the hub, and carries what is for nodes to them, until stop: each place in a line of its
// own, and no more often than its share. A question to the hub itself beyond that gets no answer.
func (h *Hub) answerAskers(ctx context.Context) (stop func(), err error) {
	var lake *node.Lake
	if h.o.Rows != nil {
		lake = node.NewLake(h.conn, h.o.Log, h.o.Rows, func() { h.count(whyQuestion) })
	}
	ctx, cancel := context.WithCancel(ctx)
	deaf, err := h.conn.HearAskers(func(m bus.Msg) {
		place, what := bus.HubOf(m.Subject)
		if to, ok := bus.OnwardOf(what); ok {
			h.carry(ctx, lake, place, to, m)
			return
		}
		if !h.askers.take(place, time.Now()) {
			h.refuse("a question", place, whyAsksOften, errAsksOften)
			return
		}
		switch what {
		case asksNodes:
			h.nodes(m)
		case asksStatus:
			h.status(ctx, m)
		case asksLeak:
			h.leak(m)
		}
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return func() {
		deaf()
		cancel()
		if lake != nil {
			lake.Wait()
		}
	}, nil
}
