package hub

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

// counts are what became of frames.
type counts struct {
	sync.Mutex
	frames, rows int64
	recent       recent
	room         int64            // bytes that the stream may have now; 0 before it is there
	bad          map[string]int64 // frames refused, by reason

	lakeBytes int64
	lakeHours int

	keepError, streamError, tidyError string // why rows don't come further now
}

// Reasons for which a frame is refused.
const (
	whyCorrupt = "corrupt frame"
	whyForged  = "frame in another node's name"
	whyTable   = "frame of a table that is not known"
	// whyQuestion is one that would change something, or read files; by the hub's lake or a node.
	whyQuestion = "question that may not be asked"
)

// Status is what `memgauge hub status` tells.
type Status struct {
	Addr    string      `json:"addr"`
	Began   time.Time   `json:"started"`
	Keeps   bool        `json:"keeps"`   // whether rows are taken over
	Waiting bus.Waiting `json:"waiting"` // frames that are not in the lake yet
	MaxDisk int64       `json:"max_disk"`
	Room    int64       `json:"room"`   // bytes of frames that may wait now: less than MaxDisk where the disk is full
	Frames  int64       `json:"frames"` // taken over since the start
	Rows    int64       `json:"rows"`   // in them
	Stored  int64       `json:"stored"` // rows that are in the lake since the start
	Again   int64       `json:"again"`  // rows that came again, and were left out
	Lake    string      `json:"lake,omitempty"`
	Answers bool        `json:"answers"` // whether the lake can be asked through the hub

	LakeBytes int64 `json:"lake_bytes"` // as of the last time that it was maintained
	LakeHours int   `json:"lake_hours"`

	Rate    float64       `json:"rows_per_second"`
	Trouble []string      `json:"trouble"` // why rows don't come further now
	Nodes   []fanout.Node `json:"nodes"`

	Lost map[string]int64 `json:"lost"` // rows that nodes will never send, by reason

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
	h.reply(m, node.Welcome{Keeps: h.o.Keep != nil}) // it is known now
}

func (h *Hub) nodes(m bus.Msg) { h.reply(m, h.roster.list(time.Now())) }

func (h *Hub) status(ctx context.Context, m bus.Msg) {
	h.reply(m, h.Status(ctx))
}

// Status tells how the hub is.
func (h *Hub) Status(ctx context.Context) Status {
	s := Status{Addr: h.Identity.Addr, Began: h.began.UTC(), Keeps: h.o.Keep != nil, MaxDisk: h.o.MaxDisk,
		Nodes: h.roster.list(time.Now()), Refused: map[string]int64{}}
	if h.server != nil {
		s.Refused = h.server.Refused()
	}
	s.Trouble, s.Lost = []string{}, map[string]int64{}
	if s.Keeps {
		w, err := h.conn.Waiting(ctx)
		if err != nil {
			h.o.Log.Warn("look at the stream", "error", err)
		}
		s.Waiting = w
		s.Stored, s.Again = h.o.Keep.Counts()
	}
	for _, n := range s.Nodes {
		if n.Refused > 0 {
			s.Refused[whyQuestion] += n.Refused
		}
		for why, rows := range n.Lost {
			s.Lost[why] += rows
		}
	}
	h.counts.Lock()
	defer h.counts.Unlock()
	s.Frames, s.Rows, s.Room = h.counts.frames, h.counts.rows, h.counts.room
	s.Answers = h.o.Rows != nil
	s.Lake, s.LakeBytes, s.LakeHours = h.o.Lake, h.counts.lakeBytes, h.counts.lakeHours
	s.Rate = h.counts.recent.perSecond(time.Now(), h.began)
	for _, text := range []string{h.counts.keepError, h.counts.streamError, h.counts.tidyError} {
		if text != "" {
			s.Trouble = append(s.Trouble, text)
		}
	}
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

func (h *Hub) refuse(from, why string, err error) {
	h.o.Log.Warn("refused a frame", "node", from, "why", why, "error", err)
	h.count(why)
}

// count counts what was refused.
func (h *Hub) count(why string) {
	h.counts.Lock()
	defer h.counts.Unlock()
	if h.counts.bad == nil {
		h.counts.bad = map[string]int64{}
	}
	h.counts.bad[why]++
}
