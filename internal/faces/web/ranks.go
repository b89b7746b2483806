package web

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/skew"
)

// Job is a training on many machines, whose ranks the page sets beside each other.
type Job struct {
	Name string
	// Members are its sessions, which Sessions opens, and what is missing.
	Members func(ctx context.Context) (list []Member, missing []string, err error)
}

// Member is a session of a job.
type Member struct{ ID, Node string }

const (
	// rankColumns are the stretches of steps that a session is asked for: 8,000 ranks have 4 MB of them.
	rankColumns = 128
	// maxRanks bounds the ranks that are read, as package skew's grid does.
	maxRanks = skew.MaxUnits
	// ranksFresh is how long an answer is good for: pages that look on share it.
	ranksFresh = 5 * time.Second
	// membersAtOnce are asked at a time.
	membersAtOnce = 64
	// most of what a picture may have: a 4K screen has no more pixels for it
	mostRankRows = 2160
)

// ranks are what the ranks of a job held, read together.
type ranks struct {
	mu      sync.Mutex // held while they are read: who comes meanwhile takes the same
	read    time.Time
	list    []rankRow
	width   int64 // steps of a column
	missing []string
	report  skew.Report
}

type rankRow struct {
	Rank      int
	Node, ID  string
	Allocated [rankColumns]float64 // bytes, NaN: no step there
	RSS       [rankColumns]float64
}

type rankCell struct {
	Rank      int      `json:"rank"`
	W         int64    `json:"w"`
	At        int64    `json:"at"`
	Allocated *float64 `json:"allocated"`
	RSS       *float64 `json:"rss"`
}

// fresh reads the job's ranks, unless that was just done.
func (s *Server) fresh(ctx context.Context) error {
	r := &s.ranks
	if time.Since(r.read) < ranksFresh {
		return nil
	}
	members, missing, err := s.Job.Members(ctx)
	if err != nil {
		return err
	}
	cells := make([][]rankCell, len(members))
	failed := make([]error, len(members))
	held := skew.NewHeld()
	slots := make(chan struct{}, membersAtOnce)
	var all sync.WaitGroup
	for i, m := range members {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			cells[i], failed[i] = s.tell(ctx, m, held)
		})
	}
	all.Wait()
	for i, err := range failed {
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", members[i].Node, err))
		}
	}
	r.fill(members, cells)
	r.report = held.Judge()
	r.missing, r.read = missing, time.Now()
	return ctx.Err()
}

// tell asks a session for the picture's cells, and for what the comparison needs.
func (s *Server) tell(ctx context.Context, m Member, held *skew.Held) (cells []rankCell, err error) {
	d, err := s.doors.enter(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	if cells, err = api.Rows[rankCell](ctx, d, skew.Session.Stretches(rankColumns)); err == nil {
		err = api.Through(ctx, func(ctx context.Context, w io.Writer) error {
			return d.Query(ctx, api.QueryRequest{SQL: skew.Session.Statement(), Format: "ndjson"}, w)
		}, func(r io.Reader) error { return held.Add(m.Node, r) })
	}
	s.doors.leave(d)
	return cells, err
}

// fill joins what the sessions have told at the widest of their stretches.
func (r *ranks) fill(members []Member, cells [][]rankCell) {
	r.list, r.width = nil, widthOf(cells)
	for i, list := range cells {
		places := map[int]int{}
		for _, c := range list {
			if !c.sane() {
				continue // another machine's word
			}
			at, known := places[c.Rank]
			if !known {
				if len(r.list) >= maxRanks {
					continue
				}
				at = len(r.list)
				places[c.Rank] = at
				r.list = append(r.list, newRank(c.Rank, members[i]))
			}
			if column := c.column(r.width); column < rankColumns {
				lower(&r.list[at].Allocated[column], c.Allocated)
				lower(&r.list[at].RSS[column], c.RSS)
			}
		}
	}
	order.Stable(r.list, func(a, b rankRow) int { return a.Rank - b.Rank })
}

// told is how a session tells of its ranks: in stretches of w steps, up to the last.
type told struct{ w, last, ranks int64 }

func toldBy(cells []rankCell) (t told) {
	ranks := map[int]bool{}
	for _, c := range cells {
		if !c.sane() {
			continue
		}
		if ranks[c.Rank] = true; c.W > t.w {
			t.w, t.last = c.W, 0
		}
		if c.W == t.w {
			t.last = max(t.last, c.At)
		}
	}
	t.ranks = int64(len(ranks))
	return t
}

// sane says whether a cell is one that sessions tell: its stretch is a power of two.
func (c rankCell) sane() bool { return c.At >= 0 && c.At < rankColumns && c.W > 0 && c.W&(c.W-1) == 0 }

// column is where a cell is in stretches of another width.
func (c rankCell) column(width int64) int64 {
	if c.W <= width {
		return c.At / (width / c.W)
	}
	return c.At * min(c.W/width, rankColumns)
}

// widthOf is the longest stretch at which a quarter of what could be told apart still is: the word of one session does
// not put those of all others into one column.
func widthOf(cells [][]rankCell) (width int64) {
	var all []told
	for _, list := range cells {
		if t := toldBy(list); t.w > 0 {
			all = append(all, t)
		}
	}
	apart := map[int64]int64{}
	most := int64(0)
	for _, at := range all {
		if _, done := apart[at.w]; done {
			continue
		}
		for _, t := range all {
			if t.w <= at.w {
				apart[at.w] += t.ranks * (t.last/(at.w/t.w) + 1)
			}
		}
		most = max(most, apart[at.w])
	}
	width = 1
	for w, n := range apart {
		if 4*n >= most {
			width = max(width, w)
		}
	}
	return width
}

func newRank(rank int, m Member) rankRow {
	x := rankRow{Rank: rank, Node: m.Node, ID: m.ID}
	for c := range rankColumns {
		x.Allocated[c], x.RSS[c] = math.NaN(), math.NaN()
	}
	return x
}

func lower(have *float64, v *float64) {
	if v != nil && !(*have <= *v) {
		*have = *v
	}
}

// heat is a picture of ranks by steps: a byte a cell, 0 where there is nothing, else from Low to High.
type heat struct {
	Job      string     `json:"job"`
	Ranks    int        `json:"ranks"`
	Rows     []heatRow  `json:"rows"`
	Width    int64      `json:"width"` // steps of a column
	Columns  int        `json:"columns"`
	Low      float64    `json:"low"` // bytes
	High     float64    `json:"high"`
	Cells    []byte     `json:"cells"` // by row
	Odd      []oddRank  `json:"odd"`
	Warnings []string   `json:"warnings"`
	Missing  []string   `json:"missing"`
	Middle   []*float64 `json:"middle"` // median of each column
}

// heatRow is one rank, or several where there are more than rows: the one that is farthest from the median stands for
// them.
type heatRow struct {
	Rank  int    `json:"rank"`
	Node  string `json:"node"`
	ID    string `json:"id"`
	Count int    `json:"count"`
	Odd   bool   `json:"odd"`
}

type oddRank struct {
	skew.Finding
	ID   string `json:"id"`
	Text string `json:"text"`
}

// heatMap draws the ranks from one to before another, in at most so many rows.
func (s *Server) heatMap(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerPatience)
	defer cancel()
	if s.Job == nil {
		reply(w, nil, fmt.Errorf("this page shows no job: memgauge hub job=NAME web does"))
		return
	}
	s.ranks.mu.Lock()
	defer s.ranks.mu.Unlock()
	err := s.fresh(ctx)
	if err != nil {
		reply(w, nil, err)
		return
	}
	q := params(r.URL.Query())
	h := s.ranks.draw(q.text("of") == "rss", q.text("by") == "deviation", int(q.number("from")), int(q.number("to")),
		int(q.number("rows")))
	h.Job = s.Job.Name
	reply(w, h, nil)
}

func (r *ranks) draw(rss, deviation bool, from, to, rows int) heat {
	h := heat{Ranks: len(r.list), Rows: []heatRow{}, Width: r.width, Cells: []byte{}, Odd: []oddRank{},
		Warnings: r.report.Warnings, Missing: append([]string{}, r.missing...), Middle: []*float64{}}
	value := func(x *rankRow) *[rankColumns]float64 {
		if rss {
			return &x.RSS
		}
		return &x.Allocated
	}
	middle := r.middle(value)
	for c, m := range middle {
		if !math.IsNaN(m) {
			h.Columns = c + 1
		}
	}
	for _, m := range middle[:h.Columns] {
		if h.Middle = append(h.Middle, nil); !math.IsNaN(m) {
			h.Middle[len(h.Middle)-1] = &m
		}
	}
	odd := map[skew.Unit]bool{}
	for _, f := range r.report.Findings {
		odd[skew.Unit{Rank: f.Rank, Node: f.Node}] = true
		h.Odd = append(h.Odd, oddRank{f, r.idOf(f), f.Text()})
	}
	rows = min(max(rows, 1), mostRankRows)
	if to <= from {
		from, to = 0, len(r.list)
	}
	from, to = max(0, min(from, len(r.list))), max(0, min(to, len(r.list)))
	rows = min(rows, to-from)
	var picked []*rankRow
	for i := range rows {
		group := r.list[from+i*(to-from)/rows : from+(i+1)*(to-from)/rows]
		x := farthest(group, middle, value, odd)
		picked = append(picked, x)
		h.Rows = append(h.Rows, heatRow{x.Rank, x.Node, x.ID, len(group), odd[skew.Unit{Rank: x.Rank, Node: x.Node}]})
	}
	h.paint(picked, middle, value, deviation)
	return h
}

func (r *ranks) idOf(f skew.Finding) string {
	for i := range r.list {
		if r.list[i].Rank == f.Rank && r.list[i].Node == f.Node {
			return r.list[i].ID
		}
	}
	return ""
}

// middle is the median of each column.
func (r *ranks) middle(value func(*rankRow) *[rankColumns]float64) (out [rankColumns]float64) {
	values := make([]float64, 0, len(r.list))
	for c := range rankColumns {
		values = values[:0]
		for i := range r.list {
			if v := value(&r.list[i])[c]; !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		out[c] = math.NaN()
		if len(values) > 0 {
			slices.Sort(values)
			out[c] = values[len(values)/2]
		}
	}
	return out
}

// farthest is the rank of a group that is odd, or else differs most from the median somewhere.
func farthest(group []rankRow, middle [rankColumns]float64, value func(*rankRow) *[rankColumns]float64,
	odd map[skew.Unit]bool) *rankRow {
	best, most := &group[0], -1.0
	for i := range group {
		x, far := &group[i], 0.0
		for c, v := range value(x) {
			if d := math.Abs(v - middle[c]); d > far {
				far = d
			}
		}
		if odd[skew.Unit{Rank: x.Rank, Node: x.Node}] {
			far = math.Inf(1)
		}
		if far > most {
			best, most = x, far
		}
	}
	return best
}

// paint makes bytes of the values, or of their distances from the median.
func (h *heat) paint(rows []*rankRow, middle [rankColumns]float64, value func(*rankRow) *[rankColumns]float64,
	deviation bool) {
	at := func(x *rankRow, c int) float64 {
		if deviation {
			return value(x)[c] - middle[c]
		}
		return value(x)[c]
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range rows {
		for c := range h.Columns {
			if v := at(x, c); !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if low > high {
		low, high = 0, 0
	}
	if deviation { // as far to both sides, so that the median's colour is in the middle
		high = max(-low, high)
		low = -high
	}
	h.Low, h.High = low, high
	for _, x := range rows {
		for c := range h.Columns {
			v := at(x, c)
			if math.IsNaN(v) {
				h.Cells = append(h.Cells, 0)
				continue
			}
			share := 0.5
			if high > low {
				share = (v - low) / (high - low)
			}
			h.Cells = append(h.Cells, byte(1+math.Round(254*share)))
		}
	}
}
