package web

import (
	"context"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/api"
)

// A track is a memory over time: parts that add up to what is drawn as a whole, or lines of their own.
type track struct {
	from  string // table and condition
	whole string // expression; its least and most in each interval are drawn too
	limit string // expression, "" for none
	parts []part
}

// part is a class of memory: its name for the page, and the expression.
type part struct{ name, expr string }

// Resident memory by class: the parts add up to rss. What malloc holds may exceed what is resident of it, since a page
// that was never touched is not there.
const (
	heapInUse = "least(coalesce(heap_in_use, 0), anon)"
	heapFree  = "least(greatest(coalesce(heap_held, 0) - coalesce(heap_in_use, 0), 0), anon - " + heapInUse + ")"
	otherAnon = "anon - " + heapInUse + " - " + heapFree
)

var residentParts = []part{{"heap_in_use", heapInUse}, {"heap_free", heapFree}, {"anonymous", otherAnon},
	{"shared", "shmem"}, {"file", "file"}}

// trackOf is the track that a page asks for; pid and device tell which of a kind.
func trackOf(kind string, pid, dev int64, path string) (track, error) {
	switch kind {
	case "job":
		return track{from: "cgroup.memory WHERE path = " + quoted(path), whole: "current", limit: "limit_bytes",
			parts: []part{{"anonymous", "anon"}, {"shared", "shmem"}, {"file", "file"}, {"kernel", "kernel"}}}, nil
	case "host":
		return track{from: "host.memory WHERE true", whole: "total - available", limit: "total",
			parts: []part{{"anonymous", "anon"}, {"shared", "shmem"},
				{"kernel", "slab - slab_reclaimable + kernel_stack + page_tables"}}}, nil
	case "process":
		return track{from: fmt.Sprintf("process.memory WHERE pid = %d", pid), whole: "rss", parts: residentParts}, nil
	case "device":
		return track{from: fmt.Sprintf("gpu.utilization WHERE device_id = %d", dev), whole: "used_bytes",
			limit: "total_bytes", parts: []part{{"used", "used_bytes"}}}, nil
	case "allocator":
		return track{from: fmt.Sprintf("python.step_devices WHERE pid = %d AND device = %s", pid, quoted(path)),
			whole: "max_reserved", parts: []part{{"allocated", "allocated"}, {"cached", "reserved - allocated"}}}, nil
	case "floors":
		return track{from: fmt.Sprintf("python.steps WHERE pid = %d", pid), whole: "heap_in_use",
			parts: []part{{"step", "step"}, {"heap_in_use", "heap_in_use"}, {"anon", "anon"}}}, nil
	}
	return track{}, fmt.Errorf("there is no series %q", kind)
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// interval is what a page shows of a track: from and to in µs since the epoch, divided into stretches of width µs.
// Those begin at multiples of width, so that a page can ask for the end alone and join it to what it has.
type interval struct{ from, to, width int64 }

// maxIntervals bounds an answer: twice the pixels of the widest screen.
const maxIntervals = 8192

func (i interval) check() error {
	if i.width <= 0 || i.to < i.from || (i.to-i.from)/i.width > maxIntervals {
		return fmt.Errorf("the interval is not one: %d to %d by %d", i.from, i.to, i.width)
	}
	return nil
}

func (t track) sql(i interval) string {
	var b strings.Builder
	fmt.Fprintf(&b, `SELECT epoch_us(max(ts)) AS t, min(%[1]s)::DOUBLE AS lo, max(%[1]s)::DOUBLE AS hi`, t.whole)
	limit := t.limit
	if limit == "" {
		limit = "NULL::BIGINT"
	}
	fmt.Fprintf(&b, ", arg_max(%s, ts)::DOUBLE AS \"limit\", [", limit)
	for n, p := range t.parts {
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "arg_max(%s, ts)::DOUBLE", p.expr)
	}
	fmt.Fprintf(&b, `] AS parts FROM %s AND ts >= make_timestamp(%d) AND ts <= make_timestamp(%d)
		GROUP BY epoch_us(ts) // %d ORDER BY 1`, t.from, i.from-i.from%i.width, i.to, i.width)
	return b.String()
}

// columns are a track's values, column by column: a page draws them as they come.
type columns struct {
	Width int64                 `json:"width"`
	From  int64                 `json:"from"` // µs since the epoch: what was asked for
	T     []int64               `json:"t"`    // µs since the epoch, of the last reading in each interval
	Lo    []*float64            `json:"lo"`
	Hi    []*float64            `json:"hi"`
	Limit []*float64            `json:"limit"`
	Parts map[string][]*float64 `json:"parts"`
	Order []string              `json:"order"` // of Parts, from the bottom
}

func series(ctx context.Context, s api.Session, q params) (any, error) {
	t, err := trackOf(q.text("kind"), q.number("pid"), q.number("device"), q.text("path"))
	if err != nil {
		return nil, err
	}
	i := interval{q.number("from"), q.number("to"), q.number("width")}
	if err := i.check(); err != nil {
		return nil, err
	}
	if d, ok := s.(*door); ok {
		rows, err := d.overviews.of(t).read(ctx, s, t, i)
		return t.columns(rows, i), err
	}
	return t.read(ctx, s, i)
}

// reading is a track in one interval, at its last moment.
type reading struct {
	T             int64
	Lo, Hi, Limit *float64
	Parts         []*float64
}

func (t track) rows(ctx context.Context, s api.Querier, i interval) ([]reading, error) {
	return api.Rows[reading](ctx, s, t.sql(i))
}

func (t track) read(ctx context.Context, s api.Querier, i interval) (*columns, error) {
	rows, err := t.rows(ctx, s, i)
	return t.columns(rows, i), err
}

func (t track) columns(rows []reading, i interval) *columns {
	n := len(rows)
	c := &columns{Width: i.width, From: i.from, T: make([]int64, n), Lo: make([]*float64, n), Hi: make([]*float64, n),
		Limit: make([]*float64, n), Parts: map[string][]*float64{}}
	for _, p := range t.parts {
		c.Order = append(c.Order, p.name)
		c.Parts[p.name] = make([]*float64, n)
	}
	for k, r := range rows {
		c.T[k], c.Lo[k], c.Hi[k], c.Limit[k] = r.T, r.Lo, r.Hi, r.Limit
		for m, p := range t.parts {
			if m < len(r.Parts) {
				c.Parts[p.name][k] = r.Parts[m]
			}
		}
	}
	return c
}
