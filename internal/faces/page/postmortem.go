package page

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/questions"
)

// RanOut reads how memory ran out, and the minute before; nil where it did not. Processes name who held it, devices
// say how much there is of a GPU's.
func RanOut(ctx context.Context, db api.Querier, processes []questions.Process,
	devices map[string]*monitor.DeviceReport) (*PostMortem, []Line, error) {
	ends, err := api.Ask(ctx, db, questions.RanOut)
	if err != nil || len(ends) == 0 {
		return nil, nil, err
	}
	end := ends[0]
	p := &PostMortem{Time: time.UnixMicro(end.Micros).UTC(), Event: end.Name, Text: end.Text, Device: monitor.Host,
		LargestHole: end.Hole, Grew: []Grower{}, Largest: []Grower{}}
	rows, err := api.Ask(ctx, db, questions.Minute(end.Micros))
	if err != nil {
		return nil, nil, err
	}
	series := byOwner(rows)
	for _, s := range series {
		who := s.grower(end.Micros)
		if who.Scope == "process" {
			s.name = nameOf(processes, who.PID)
		}
		if who.Grown > 0 {
			p.Grew = append(p.Grew, who)
		}
		p.Largest = append(p.Largest, who)
	}
	sortBy(p.Grew, func(w Grower) int64 { return w.Grown })
	sortBy(p.Largest, func(w Grower) int64 { return w.Bytes })
	p.tell(end, devices)
	return p, minute(series), nil
}

// tell fills in what failed, and the limit that it met.
func (p *PostMortem) tell(end questions.Exhausted, devices map[string]*monitor.DeviceReport) {
	if end.Name == "oom_kill" {
		p.Summary, p.Limit = end.Text, end.B
		return
	}
	where := "on the host"
	if end.B != nil && *end.B >= 0 {
		p.Device = strconv.FormatInt(*end.B, 10)
		where = "on GPU " + p.Device
	}
	if d := devices[p.Device]; d != nil && d.CurrentMemory.Total > 0 {
		p.Limit = &d.CurrentMemory.Total
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
	rows []questions.Held
}

func byOwner(rows []questions.Held) (list []*owner) {
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
	order.Stable(list, func(a, b Grower) int { return cmp.Compare(key(b), key(a)) })
}
