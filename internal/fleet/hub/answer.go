package hub

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
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

	keepError, streamError, tidyError, alertError string // why rows, or alerts, don't come further now
}

// maxTrouble bounds each of the words of why rows don't come further, in bytes.
const maxTrouble = 1 << 10

// Reasons for which a frame is refused.
const (
	whyCorrupt   = "corrupt frame"
	whyForged    = "frame in another node's name"
	whyTable     = "frame of a table that is not known"
	whyFormer    = "frame of an older memgauge"
	whyHello     = "hello out of bounds"
	whyOften     = "hello that comes too often"
	whyAsksOften = "question or word beyond its asker's share"
	whyReply     = "message that can't be answered"
	whyShare     = "frame beyond its node's share, to come later"
	whyColumn    = "frame with columns that are not known, which were left out"
	// whyQuestion is one that would change something, or read files; by the hub's lake or a node.
	whyQuestion = "question that may not be asked"
)

// statusFor is how long an answer about the hub is given again: making one looks at all nodes and at the stream.
const statusFor = time.Second

// told is the newest of them: one is made at a time.
type told struct {
	sync.Mutex
	at     time.Time
	gone   int64 // of the roster then: who leaves is missed at once
	status Status
}

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
	Total   int           `json:"nodes_known"` // of which Nodes has the first, within a message
	Up      int           `json:"nodes_connected"`
	Ended   int           `json:"nodes_ended"` // that were there for one run, which is over

	Aside     []string `json:"set_aside"`      // files in the lake that were damaged or none of its own; the newest
	AsideMore int      `json:"set_aside_more"` // those before
	Left      int      `json:"roster_entries_left_out"`

	Lost map[string]int64 `json:"lost"` // rows that nodes will never send, by reason

	Refused map[string]int64 `json:"refused"` // connections and frames, by reason
}

// nodes answers with the nodes behind the one that is named, within a message.
func (h *Hub) nodes(m bus.Msg) {
	var q fanout.After
	_ = json.Unmarshal(m.Data, &q) // who asks for nothing gets the first
	list, _ := page(h.roster.list(time.Now()), q.After)
	h.reply(m, list)
}

func (h *Hub) status(ctx context.Context, m bus.Msg) {
	h.reply(m, h.lately(ctx, time.Now()))
}

// lately is the status, statusFor old at most.
func (h *Hub) lately(ctx context.Context, now time.Time) Status {
	h.told.Lock()
	defer h.told.Unlock()
	gone := h.roster.gone.Load()
	if h.told.at.IsZero() || now.Sub(h.told.at) > statusFor || gone != h.told.gone {
		h.told.at, h.told.gone, h.told.status = now, gone, h.Status(ctx)
	}
	return h.told.status
}

// Status tells how the hub is.
func (h *Hub) Status(ctx context.Context) Status {
	s := Status{Addr: h.Identity.Addr, Began: h.began.UTC(), Keeps: h.o.Keep != nil, MaxDisk: h.o.MaxDisk,
		Refused: map[string]int64{}, Left: h.roster.left, Aside: []string{}}
	list := h.roster.list(time.Now())
	s.Total = len(list)
	s.Nodes, _ = page(list, "")
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
		for why, n := range h.o.Keep.Refused() {
			s.Refused[why] += n
		}
		names, more := h.o.Keep.Aside()
		s.Aside, s.AsideMore = append(s.Aside, names...), more
	}
	for _, n := range list {
		if n.Up {
			s.Up++
		} else if n.Ended {
			s.Ended++
		}
		if n.Refused > 0 {
			s.Refused[whyQuestion] += n.Refused
		}
		for why, rows := range n.Lost {
			s.Lost[why] += rows
		}
	}
	s.Lost = few(s.Lost, maxReasons)
	h.counts.Lock()
	defer h.counts.Unlock()
	s.Frames, s.Rows, s.Room = h.counts.frames, h.counts.rows, h.counts.room
	s.Answers = h.o.Rows != nil
	s.Lake, s.LakeBytes, s.LakeHours = h.o.Lake, h.counts.lakeBytes, h.counts.lakeHours
	s.Rate = h.counts.recent.perSecond(time.Now(), h.began)
	for _, text := range []string{h.counts.keepError, h.counts.streamError, h.counts.tidyError,
		h.counts.alertError} {
		if text != "" {
			s.Trouble = append(s.Trouble, cut(text, maxTrouble))
		}
	}
	for why, n := range h.counts.bad {
		s.Refused[why] += n
	}
	return s
}

func (h *Hub) reply(m bus.Msg, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = h.conn.Reply(m, b)
	}
	if err != nil {
		h.refuse("to answer", bus.NodeOf(m.Subject), whyReply, err)
	}
}

func (h *Hub) refuse(what, from, why string, err error) {
	if n := h.count(why); bus.Seldom(n) {
		h.o.Log.Warn("refused "+what, "node", from, "why", why, "error", err, "so far", n)
	}
}

// count counts what was refused.
func (h *Hub) count(why string) int64 {
	h.counts.Lock()
	defer h.counts.Unlock()
	if h.counts.bad == nil {
		h.counts.bad = map[string]int64{}
	}
	h.counts.bad[why]++
	return h.counts.bad[why]
}
