package skew

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/internal/base/order"
)

// Source is where the rows of a job lie: tables in SQL that have a column node.
type Source struct {
	Steps string // rows of python.steps
	Hosts string // rows of host.memory
	Ranks int    // at most so many are told, the lowest
}

// Tables are those that a comparison reads.
var Tables = []string{"python.steps", "host.memory"}

// Session is a session's own tables. Its node is known by who asks it. With 4,096 ranks of 1 KiB the answer has 4 MiB.
var Session = Source{"(SELECT '' AS node, * FROM python.steps)", "(SELECT '' AS node, * FROM host.memory)", 4096}

// Lake is what a lake has of a job.
func Lake(job string) Source {
	of := " WHERE job = '" + strings.ReplaceAll(job, "'", "''") + "')"
	return Source{"(SELECT * FROM python.steps" + of, "(SELECT * FROM host.memory" + of, MaxUnits}
}

// Own begins a statement with the rows that ranks are compared by, as the table own: those of training steps, of the
// newest process of each rank where one was restarted. What has no rank, or only infers, has no peers; steps that no
// training reaches are another machine's word, and would overflow.
func (s Source) Own() string {
	return fmt.Sprintf(`WITH step AS (SELECT * REPLACE (coalesce(pid, 0) AS pid) FROM %s
		WHERE rank IS NOT NULL AND NOT inference AND step BETWEEN 0 AND 1000000000000),
	newest AS (SELECT node, rank, arg_max(pid, ts) AS pid FROM step GROUP BY node, rank ORDER BY rank, node LIMIT %d),
	own AS (SELECT step.* FROM step JOIN newest USING (node, rank, pid))`, s.Steps, s.Ranks)
}

// Stretches asks for the least that each rank held, of its device and on the host, in so many stretches of steps at
// most: what every step comes back to. A stretch is w steps long, a power of two, so that those of different sessions
// can be joined.
func (s Source) Stretches(most int) string {
	return s.Own() + fmt.Sprintf(`,
	w AS (SELECT greatest(1, 2 ** ceil(log2((max(step) + 1) / %d.0)))::BIGINT AS w FROM own)
	SELECT rank, w, step // w AS "at", min(allocated) AS allocated, min(rss) AS rss FROM own, w GROUP BY ALL`, most)
}

// Statement asks for what the ranks held at their steps: at most 65 cells of equal width in steps for each, by node, so
// that none makes those of others wider. Widths are powers of two and cells begin at multiples of them, so that those
// of all sessions fall together. The row of rank -1 is a machine's memory, by the steps of its lowest rank. Sizes are
// KiB, times ms; lists are texts, which are read several times as fast as lists of JSON.
func (s Source) Statement() string {
	return s.Own() + `,
	wide AS (SELECT node, pow(2, ceil(log2(greatest(1, (max(step) - min(step) + 1) / 64))))::BIGINT AS width
		FROM own GROUP BY node),
	made AS (SELECT node, date_trunc('second', ts) AS second, min(ts) AS ts, max(step) AS step
		FROM own JOIN (SELECT node, min(rank) AS rank FROM newest GROUP BY node) USING (node, rank) GROUP BY 1, 2),
	host AS (SELECT node, made.step, min(h.total - h.available) AS used FROM ` + s.Hosts + ` h
		ASOF JOIN made USING (node, ts) WHERE h.available BETWEEN 0 AND h.total GROUP BY 1, 2),
	cells AS (
		SELECT node, rank, step // width AS cell, min(step) AS first, max(step) AS last, min(allocated) AS held,
			min(anon) FILTER (device <> 'cpu') AS process, epoch_ms(min(ts)) AS ms
			FROM own JOIN wide USING (node) GROUP BY 1, 2, 3
		UNION ALL
		SELECT node, -1, step // width, min(step), max(step), min(used), NULL, NULL FROM host
			JOIN wide USING (node) GROUP BY 1, 2, 3)
	SELECT node, rank, max(last) AS last,
		string_agg(first, ' ' ORDER BY cell) AS steps,
		string_agg(coalesce((held // 1024)::VARCHAR, '-'), ' ' ORDER BY cell) AS held,
		CASE WHEN count(process) > 0
			THEN string_agg(coalesce((process // 1024)::VARCHAR, '-'), ' ' ORDER BY cell) END AS process,
		min(ms) AS began,
		CASE WHEN count(ms) > 0 THEN string_agg(ms - own_began, ' ' ORDER BY cell) END AS ms
	FROM (SELECT *, min(ms) OVER (PARTITION BY node, rank) AS own_began FROM cells)
	GROUP BY node, rank ORDER BY rank, node`
}

// series is a row of the answer to Statement.
type series struct {
	Node    string  `json:"node"`
	Rank    int     `json:"rank"`
	Last    int64   `json:"last"`
	Steps   string  `json:"steps"`
	Held    string  `json:"held"`
	Process string  `json:"process"`
	Began   float64 `json:"began"`
	MS      string  `json:"ms"`
}

// Held is what was told of a job: its ranks, and what they and their nodes held. Several may add to it at a time.
type Held struct {
	Ranks []Unit // at most MaxUnits

	mu    sync.Mutex
	nodes map[string]Input
}

// NewHeld makes an empty one.
func NewHeld() *Held { return &Held{nodes: map[string]Input{}} }

// NewInput makes one of empty grids.
func NewInput() Input {
	return Input{Memory: NewGrid(), Process: NewGrid(), Time: NewGrid(), Host: NewGrid()}
}

// Put makes what one node has told be this. It is read until the comparison has ended.
func (h *Held) Put(node string, in Input) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes[node] = in
}

func (in Input) grids() []*Grid { return []*Grid{in.Memory, in.Process, in.Time, in.Host} }

// reach is the last step that any of its values has.
func (in Input) reach() (last int64) {
	for _, g := range in.grids() {
		for _, l := range g.last {
			last = max(last, l)
		}
	}
	return last
}

// Steps beyond wayBeyond times those of other nodes and a few are not of the same job, or of one that has stood still
// for most of it.
const (
	wayBeyond = 4
	afew      = 1 << 10
)

// Judge compares the ranks. Steps far beyond those of other nodes would make the columns so wide that nobody has eight
// of them: nodes that tell of such steps are left out where the others can't be compared with them.
func (h *Held) Judge() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := slices.Collect(maps.Keys(h.nodes))
	order.By(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(h.nodes[a].reach(), h.nodes[b].reach()), strings.Compare(a, b))
	})
	all := h.joined(names)
	for n := len(names); n > 0; n-- {
		if n < len(names) && h.nodes[names[n]].reach()/wayBeyond <= h.nodes[names[n-1]].reach()+afew {
			continue
		}
		in := all
		if n < len(names) {
			in = h.joined(names[:n])
		}
		if incomparable(in.Memory, "", in.Memory.columns()) != "" {
			continue
		}
		r := Judge(in)
		for _, name := range names[n:] {
			r.Warnings = append(r.Warnings, "node "+name+": its steps lie far beyond those of the others")
		}
		return r
	}
	return Judge(all)
}

// joined is what some nodes have told.
func (h *Held) joined(names []string) Input {
	out := NewInput()
	for _, name := range names {
		for i, g := range h.nodes[name].grids() {
			out.grids()[i].addAll(g)
		}
	}
	return out
}

// Add reads one answer to Statement, as lines of JSON. node is whose it is; "": the rows say that. One that can't be
// read whole adds nothing.
func (h *Held) Add(node string, from io.Reader) error {
	var list []series
	for dec := json.NewDecoder(from); len(list) <= maxSeries; {
		var s series
		err := dec.Decode(&s)
		switch {
		case errors.Is(err, io.EOF):
			for _, s := range list {
				h.add(s)
			}
			return nil
		case err != nil:
			return fmt.Errorf("what ranks held: %w", err)
		case s.Rank < -1 || s.Rank > math.MaxInt32:
			return fmt.Errorf("what ranks held: rank %d", s.Rank)
		}
		if node != "" {
			s.Node = node
		}
		list = append(list, s)
	}
	return fmt.Errorf("what ranks held: more than %d of them", maxSeries)
}

// maxSeries bounds an answer: all ranks that are told, and as many hosts.
const maxSeries = 2 * MaxUnits

func (h *Held) add(s series) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := Unit{Rank: s.Rank, Node: s.Node}
	in, known := h.nodes[u.Node]
	if !known && len(h.nodes) < MaxUnits {
		in = NewInput()
		h.nodes[u.Node] = in
	}
	switch {
	case in.Host == nil:
		return
	case u.Rank < 0:
		each(s.Steps, s.Held, func(step int64, kib float64) { in.Host.Add(u, step, kib*1024) })
		return
	case len(h.Ranks) >= MaxUnits:
		return
	}
	h.Ranks = append(h.Ranks, u)
	each(s.Steps, s.Held, func(step int64, kib float64) { in.Memory.Add(u, step, kib*1024) })
	each(s.Steps, s.Process, func(step int64, kib float64) { in.Process.Add(u, step, kib*1024) })
	each(s.Steps, s.MS, func(step int64, ms float64) { in.Time.Add(u, step, (s.Began+ms)/1e3) })
	for _, g := range []*Grid{in.Memory, in.Process, in.Time} {
		g.Seen(u, s.Last)
	}
}

// maxCells bounds the values of one list: the statement makes 65, and who answers is not trusted to have run it.
const maxCells = 1024

// each walks two lists side by side, up to the end of the shorter one. What is no number is no value.
func each(steps, values string, take func(step int64, value float64)) {
	for range maxCells {
		var step, value string
		var more, both bool
		step, steps, more = strings.Cut(steps, " ")
		value, values, both = strings.Cut(values, " ")
		s, err := strconv.ParseInt(step, 10, 64)
		v, errValue := strconv.ParseInt(value, 10, 64)
		if err == nil && errValue == nil {
			take(s, float64(v))
		}
		if !more || !both {
			return
		}
	}
}
