package hub

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

// counts are what became of frames.
type counts struct {
	sync.Mutex
	frames, rows int64
	bad          map[string]int64 // frames refused, by reason
}

// Reasons for which a frame is refused.
const (
	whyCorrupt = "corrupt frame"
	whyForged  = "frame in another node's name"
)

// Status is what `memgauge hub status` tells.
type Status struct {
	Addr    string        `json:"addr"`
	Began   time.Time     `json:"started"`
	Keeps   bool          `json:"keeps"`   // whether rows are taken over
	Waiting bus.Waiting   `json:"waiting"` // frames that are not in the lake yet
	MaxDisk int64         `json:"max_disk"`
	Frames  int64         `json:"frames"` // since the start
	Rows    int64         `json:"rows"`
	Nodes   []fanout.Node `json:"nodes"`

	Refused map[string]int64 `json:"refused"` // connections and frames, by reason
}

// hello notes a node, and tells it whether rows are wanted. A hello that is none is ignored: what the bus lets a node
// say is about itself alone.
func (h *Hub) hello(m bus.Msg) {
	var word node.Hello
	if json.Unmarshal(m.Data, &word) != nil || word.Instance == "" || len(word.Instance) > 64 {
		return
	}
	h.roster.hello(bus.NodeOf(m.Subject), word, time.Now())
	h.reply(m, struct{}{}) // it is known now
}

func (h *Hub) nodes(m bus.Msg) { h.reply(m, h.roster.list(time.Now())) }

func (h *Hub) status(ctx context.Context, m bus.Msg) {
	h.reply(m, h.Status(ctx))
}

// Status tells how the hub is.
func (h *Hub) Status(ctx context.Context) Status {
	s := Status{Addr: h.Identity.Addr, Began: h.began.UTC(), Keeps: h.o.Keep != nil, MaxDisk: h.o.MaxDisk,
		Nodes: h.roster.list(time.Now()), Refused: h.server.Refused()}
	if s.Keeps {
		w, err := h.conn.Waiting(ctx)
		if err != nil {
			h.o.Log.Warn("look at the stream", "error", err)
		}
		s.Waiting = w
	}
	h.counts.Lock()
	defer h.counts.Unlock()
	s.Frames, s.Rows = h.counts.frames, h.counts.rows
	for why, n := range h.counts.bad {
		s.Refused[why] += n
	}
	return s
}

func (h *Hub) reply(m bus.Msg, v any) {
	if m.Reply == "" {
		return
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = h.conn.Send(m.Reply, "", b)
	}
	if err != nil {
		h.o.Log.Warn("answer", "error", err)
	}
}

// take hands a frame to the keeper. What is no frame, or speaks of another node than the one that sent it, is counted
// and dropped: it would come again for ever.
func (h *Hub) take(ctx context.Context, m bus.Msg) error {
	from := bus.NodeOf(m.Subject)
	b, err := frame.Decode(m.Data)
	switch {
	case errors.Is(err, frame.ErrCorrupt):
		h.refuse(from, whyCorrupt, err)
		return nil
	case err != nil:
		return err
	}
	defer b.Record.Release()
	if b.Node != from {
		h.refuse(from, whyForged, errors.New(b.Node))
		return nil
	}
	if err := h.o.Keep.Append(ctx, b); err != nil {
		h.o.Log.Error("keep rows", "node", from, "table", b.Table, "error", err)
		return err
	}
	h.counts.Lock()
	h.counts.frames++
	h.counts.rows += int64(b.Count)
	h.counts.Unlock()
	h.roster.kept(from, uint64(b.Count))
	return nil
}

func (h *Hub) refuse(from, why string, err error) {
	h.o.Log.Warn("refused a frame", "node", from, "why", why, "error", err)
	h.counts.Lock()
	defer h.counts.Unlock()
	if h.counts.bad == nil {
		h.counts.bad = map[string]int64{}
	}
	h.counts.bad[why]++
}
