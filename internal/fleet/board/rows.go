package board

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// columns finds a frame's columns by name. A hub's frames have all columns of their table (frame.Batch.Fit).
type columns map[string]*frame.Column

func columnsOf(b *frame.Batch) columns {
	all := columns{}
	for k := range b.Rows.Width() {
		c := b.Rows.Column(k)
		all[c.Name] = &c
	}
	return all
}

// number is a whole number; ok is false for NULL.
func (c columns) number(name string, row int) (n int64, ok bool) {
	column := c[name]
	if column == nil || column.Null(row) {
		return 0, false
	}
	return column.Int(row), true
}

func (c columns) float(name string, row int) float64 {
	column := c[name]
	if column == nil || column.Null(row) {
		return math.NaN()
	}
	return column.Float(row)
}

func (c columns) flag(name string, row int) bool {
	column := c[name]
	return column != nil && !column.Null(row) && column.Bool(row)
}

func (c columns) text(name string, row int) string {
	column := c[name]
	if column == nil || column.Null(row) {
		return ""
	}
	return cut(column.Bytes(row))
}

// maxStep is a step that no training reaches; see skew.Source.Own, which compares the same rows.
const maxStep = 1_000_000_000_000

// steps reads rows of python.steps.
func (b *Board) steps(p *place, batch *frame.Batch) {
	c := columnsOf(batch)
	for row := range batch.Count {
		n, ranked := c.number("rank", row)
		step, _ := c.number("step", row)
		ts, timed := c.number("ts", row)
		if !ranked || !timed || n < 0 || n > math.MaxInt32 || step < 0 || step > maxStep || c.flag("inference", row) {
			continue
		}
		pid, _ := c.number("pid", row)
		of, _ := c.number("steps", row)
		r := b.rank(p, int(n), rank{session: batch.Session, pid: pid, from: ts, ts: ts, whole: step <= max(1, of)})
		if r == nil {
			continue
		}
		u := skew.Unit{Rank: int(n), Node: p.node}
		p.in.Time.Add(u, step, float64(ts)/1e6)
		held, taken := c.number("allocated", row)
		if taken {
			p.in.Memory.Add(u, step, float64(held))
		}
		if anon, ok := c.number("anon", row); ok && c.text("device", row) != "cpu" {
			p.in.Process.Add(u, step, float64(anon))
		}
		if ts >= r.ts {
			r.ts, r.step, r.held = ts, step, held
		}
		if _, known := p.newest[batch.Session]; known || len(p.newest) < nodeOwn {
			p.newest[batch.Session] = max(p.newest[batch.Session], ts)
		}
		p.make(int(n), ts, step)
	}
	p.settle()
}

// rank finds the process that a rank is now; nil for a row of one that was replaced, or beyond the bounds.
func (b *Board) rank(p *place, n int, now rank) *rank {
	r := p.ranks[n]
	switch {
	case now.ts <= p.since:
		return nil
	case r == nil && len(p.ranks) >= nodeRanks:
		b.refused++
		return nil
	case r == nil:
	case r.session == now.session && r.pid == now.pid && r.from > p.since:
		return r
	case r.session == now.session && r.pid == now.pid || now.ts <= r.ts:
		return nil
	case r.from > p.since: // the first rank of those that begin anew
		p.restart()
		fallthrough
	default:
		if r.session != now.session {
			delete(p.own, r.session)
			delete(p.newest, r.session)
		}
	}
	p.ranks[n] = &now
	return &now
}

// point is a value at a time.
type point struct {
	ts    int64 // µs
	value int64
}

const (
	maxMade  = 256 // seconds of steps that are remembered for the machine's memory: rows of both come every 30 s
	maxHosts = 256 // readings that wait for theirs, one a second
)

// make notes the step that the lowest rank is at, once a second.
func (p *place) make(n int, ts, step int64) {
	switch {
	case p.lowest >= 0 && n > p.lowest:
		return
	case n != p.lowest:
		p.lowest, p.made = n, nil
	}
	if k := len(p.made); k == 0 || ts-p.made[k-1].ts >= time.Second.Microseconds() {
		p.made = append(p.made, point{ts, step})
	}
	if len(p.made) > maxMade {
		p.made = slices.Delete(p.made, 0, len(p.made)-maxMade)
	}
}

// hosts reads rows of host.memory.
func (b *Board) hosts(p *place, batch *frame.Batch) {
	c := columnsOf(batch)
	for row := range batch.Count {
		ts, timed := c.number("ts", row)
		total, _ := c.number("total", row)
		available, taken := c.number("available", row)
		if !timed || !taken || available < 0 || available > total {
			continue
		}
		p.until = max(p.until, ts)
		p.hosts = append(p.hosts, point{ts, total - available})
		if len(p.hosts) > 2*maxHosts {
			p.settle()
		}
	}
	p.settle()
}

// settle gives readings of the machine's memory the step that its lowest rank was at.
func (p *place) settle() {
	p.hosts = slices.DeleteFunc(p.hosts, func(h point) bool {
		later := sort.Search(len(p.made), func(i int) bool { return p.made[i].ts > h.ts })
		if later == len(p.made) { // the step may still come
			return false
		}
		if later > 0 {
			p.in.Host.Add(skew.Unit{Rank: -1, Node: p.node}, p.made[later-1].value, float64(h.value))
		}
		return true
	})
	if len(p.hosts) > maxHosts {
		p.hosts = slices.Delete(p.hosts, 0, len(p.hosts)-maxHosts)
	}
}

// own is what a session says of itself: its newest judgement.
type own struct {
	judgement int64
	row       uint64 // the last that was read
	run       string
	list      []model.Finding
	bytes     int // of the texts in them, and ownCost for each
}

// findings reads rows of memgauge.findings.
func (b *Board) findings(p *place, batch *frame.Batch) {
	c, o := columnsOf(batch), p.own[batch.Session]
	if o == nil {
		if len(p.own) >= nodeOwn {
			b.refused++
			return
		}
		o = &own{}
		p.own[batch.Session] = o
	}
	for row := range batch.Count {
		judgement, _ := c.number("judgement", row)
		if at := batch.First + uint64(row); at <= o.row || judgement < o.judgement {
			continue
		} else {
			o.row = at
		}
		if judgement > o.judgement {
			o.judgement, o.run, o.list = judgement, c.text("run_verdict", row), nil
			o.bytes = len(o.run)
		}
		if len(o.list) < maxOwn {
			f := finding(c, row)
			o.list, o.bytes = append(o.list, f), o.bytes+ownCost+len(f.Verdict)+len(f.Memory)+len(f.Device)+
				len(f.Unit)+len(f.Site)+len(f.Holder)+len(f.Advice)+len(f.Name)
		}
	}
}

// finding is a row of them; of those that leak nothing, only which memory it is of.
func finding(c columns, row int) model.Finding {
	pid, _ := c.number("pid", row)
	n, ranked := c.number("rank", row)
	if !ranked {
		n = -1
	}
	f := model.Finding{Verdict: c.text("verdict", row), Memory: c.text("memory", row), PID: int32(pid),
		Rank:   model.Rank(n),
		Device: model.Text(c.text("device", row)), ByTime: c.flag("by_time", row), Start: model.Count(model.Null)}
	if f.Verdict != string(detect.Leak) {
		return f
	}
	f.PerStep = model.MB(c.float("rate_mb_per_step", row) * (1 << 20))
	f.PerSecond = model.MB(c.float("rate_mb_per_second", row) * (1 << 20))
	f.Unit, f.Site = c.text("unit", row), model.Text(c.text("site", row))
	f.Holder, f.Advice = model.Text(c.text("holder", row)), model.Lines(c.text("advice", row))
	if start, ok := c.number("start_step", row); ok {
		f.Start = model.Count(start)
	}
	return detect.Read(f)
}
