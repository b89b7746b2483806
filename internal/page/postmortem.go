package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/monitor"
	"github.com/memgauge/memgauge/internal/units"
)

type windowRow struct {
	Micros int64   `json:"t"`
	Scope  string  `json:"scope"`
	PID    *int    `json:"pid"`
	Name   *string `json:"name"`
	Bytes  int64   `json:"bytes"`
}

// endRow is the event that reported that memory ran out.
type endRow struct {
	Micros int64  `json:"t"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	A      *int64 `json:"a"` // oom: requested bytes, 0 unknown
	B      *int64 `json:"b"` // oom: the CUDA device, -1 the host; oom_kill: the limit
	Hole   *int64 `json:"hole"`
}

// The last time that memory ran out. The same process reports the hole a moment after the failure.
const endSQL = `SELECT epoch_us(e.ts) AS t, e.name, e.text, e.a, e.b,
		(SELECT h.a FROM memgauge.events h WHERE h.name = 'oom_hole' AND h.pid = e.pid AND h.b = e.b AND e.name = 'oom'
		AND h.ts BETWEEN e.ts AND e.ts + INTERVAL 10 SECOND ORDER BY h.ts LIMIT 1) AS hole
	FROM memgauge.events e WHERE e.name IN ('oom', 'oom_kill') ORDER BY e.ts DESC LIMIT 1`

// Of several events at once, the minute is stored with the first.
const minuteSQL = `SELECT epoch_us(ts) AS t, scope, pid, name, bytes FROM memgauge.event_window
	WHERE event_ts = (SELECT max(event_ts) FROM memgauge.event_window) AND abs(epoch_us(event_ts) - %d) < 60e6
	ORDER BY ts`

// postMortem reads how memory ran out, and the minute before.
func (d *Document) postMortem(g *gatherer, w *monitor.Watch) {
	var ends []endRow
	fill(g, &ends, endSQL)
	if len(ends) == 0 {
		return
	}
	end := ends[0]
	p := &PostMortem{Time: time.UnixMicro(end.Micros).UTC(), Event: end.Name, Text: end.Text, Device: monitor.Host,
		LargestHole: end.Hole, Grew: []Grower{}, Largest: []Grower{}}
	d.PostMortem = p
	var rows []windowRow
	fill(g, &rows, fmt.Sprintf(minuteSQL, end.Micros))
	series := byOwner(rows)
	for _, s := range series {
		who := s.grower(end.Micros)
		if who.Scope == "process" {
			s.name = d.nameOf(who.PID)
		}
		if who.Grown > 0 {
			p.Grew = append(p.Grew, who)
		}
		p.Largest = append(p.Largest, who)
	}
	sortBy(p.Grew, func(w Grower) int64 { return w.Grown })
	sortBy(p.Largest, func(w Grower) int64 { return w.Bytes })
	p.tell(end, w)
	d.Minute = minute(series)
}

// tell fills in what failed, and the limit that it met.
func (p *PostMortem) tell(end endRow, w *monitor.Watch) {
	if end.Name == "oom_kill" {
		p.Summary, p.Limit = end.Text, end.B
		return
	}
	where := "on the host"
	if end.B != nil && *end.B >= 0 {
		p.Device = strconv.FormatInt(*end.B, 10)
		where = "on GPU " + p.Device
	}
	for _, t := range w.Devices {
		if last := t.History.Last; t.Device.ID == p.Device && last.Total > 0 {
			p.Limit = &last.Total
		}
	}
	what := "an allocation"
	if end.A != nil && *end.A > 0 {
		p.Requested = end.A
		what = fmt.Sprintf("an allocation of %s", units.Bytes(*end.A))
	}
	p.Summary = what + " failed " + where
	if end.Hole != nil {
		p.Summary += fmt.Sprintf(" (largest hole %s)", units.Bytes(*end.Hole))
	}
	first, _, _ := strings.Cut(end.Text, "\n")
	p.Summary += ": " + first
}

// owner is one line of the window.
type owner struct {
	name string
	rows []windowRow
}

func byOwner(rows []windowRow) (list []*owner) {
	found := map[string]*owner{}
	for _, r := range rows {
		name := r.Scope
		if r.Name != nil && *r.Name != "" {
			name = *r.Name
		}
		key := name
		if r.PID != nil && *r.PID > 0 {
			key = strconv.Itoa(*r.PID)
		}
		key = r.Scope + " " + key
		o := found[key]
		if o == nil {
			o = &owner{name: name}
			found[key] = o
			list = append(list, o)
		}
		o.rows = append(o.rows, r)
	}
	return list
}

// noticed is the longest time, in µs, until a kill is noticed: by then the victim's memory is released.
const noticed = 2_000_000

// grower computes what an owner had when memory ran out: the most in the moments before it was noticed.
func (o *owner) grower(event int64) Grower {
	first := o.rows[0]
	g := Grower{Scope: first.Scope, Name: o.name, Bytes: first.Bytes}
	if first.PID != nil {
		g.PID = *first.PID
	}
	near := int64(0)
	for _, r := range o.rows {
		if r.Micros > event {
			break
		}
		g.Bytes = r.Bytes // the last reading, for those that ended before
		if r.Micros >= event-noticed {
			near = max(near, r.Bytes)
		}
	}
	g.Bytes = max(g.Bytes, near)
	g.Grown = g.Bytes - first.Bytes
	return g
}

// maxLines are as many as colours that can be told apart.
const maxLines = 7

func minute(series []*owner) (list []Line) {
	for _, o := range series[:min(len(series), maxLines)] {
		l := Line{Name: o.name}
		for _, r := range o.rows {
			l.T, l.Bytes = append(l.T, r.Micros), append(l.Bytes, r.Bytes)
		}
		list = append(list, l)
	}
	return list
}

// sortBy puts the largest first.
func sortBy(list []Grower, key func(Grower) int64) {
	slices.SortStableFunc(list, func(a, b Grower) int { return cmp.Compare(key(b), key(a)) })
}
