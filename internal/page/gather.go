package page

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/chart"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/monitor"
	"github.com/memgauge/memgauge/internal/units"
)

// Parts are the contents of a page besides the tables.
type Parts struct {
	Session Session
	Watch   *monitor.Watch // after it has read the session's tables
	Leak    detect.Report
}

// Gather queries the session.
func Gather(ctx context.Context, db api.Querier, parts Parts) (*Document, error) {
	d := &Document{SchemaVersion: SchemaVersion, Generated: time.Now().UTC(), Session: parts.Session,
		Verdict: string(parts.Leak.Verdict), Findings: findings(parts.Leak), Risk: parts.Watch.Worst().String(),
		Devices: parts.Watch.Report(monitor.What{Tool: "report", Session: parts.Session.Name, Now: time.Now()}).Devices}
	g := gatherer{ctx: ctx, db: db}
	fill(&g, &d.Processes,
		"SELECT pid, role, rank, coalesce(nullif(command, ''), comm) AS command, peak_rss, ended FROM process.tree "+
			"ORDER BY peak_rss DESC NULLS LAST LIMIT 40")
	fill(&g, &d.Events,
		"SELECT epoch_us(ts) AS t, pid, name, text FROM memgauge.events WHERE name <> 'eval begin' ORDER BY ts "+
			"LIMIT 300")
	fill(&g, &d.Overhead, OverheadSQL)
	fill(&g, &d.Drops,
		"SELECT source, reason, sum(records)::BIGINT AS records FROM memgauge.drops GROUP BY ALL ORDER BY records "+
			"DESC LIMIT 40")
	d.postMortem(&g, parts.Watch)
	d.drawFindings(&g, parts.Leak)
	d.draw(&g, parts.Watch)
	if g.err != nil {
		return nil, g.err
	}
	d.headlines(parts)
	return d, nil
}

// OverheadSQL computes shares of the longest time that any part of a process covers, which is mostly the whole run: a
// census that covers only its own half second must not count as 15 %. A run of a few seconds is too short for a share.
const OverheadSQL = `WITH p AS (SELECT pid, part, sum(ns) AS ns, sum(covered_ns) AS covered
		FROM memgauge.overhead GROUP BY ALL),
	run AS (SELECT pid, max(covered) AS covered FROM p GROUP BY pid)
	SELECT part, sum(ns) / 1e9 AS seconds,
		CASE WHEN sum(run.covered) >= 10e9 THEN sum(ns) / sum(run.covered) END AS share
	FROM p JOIN run ON p.pid IS NOT DISTINCT FROM run.pid GROUP BY part ORDER BY seconds DESC`

// gatherer keeps the first error, so that the queries can follow each other without checks.
type gatherer struct {
	ctx context.Context
	db  api.Querier
	err error
}

func fill[T any](g *gatherer, into *[]T, sql string) {
	*into = []T{}
	if g.err != nil {
		return
	}
	list, err := api.Rows[T](g.ctx, g.db, sql)
	if err != nil {
		g.err = err
		return
	}
	*into = list
}

// headlines put bad news first.
func (d *Document) headlines(parts Parts) {
	add := func(bad bool, format string, args ...any) {
		d.Headlines = append(d.Headlines, Headline{fmt.Sprintf(format, args...), bad})
	}
	if p := d.PostMortem; p != nil {
		add(true, "Memory ran out: %s.", p.Summary)
	}
	for _, f := range parts.Leak.Findings {
		if f.Verdict == detect.Leak {
			add(true, "Leak: %s %s%s.", f.Name(), f.PerStep(), heldBy(f.Holder))
		}
	}
	switch parts.Leak.Verdict {
	case detect.Healthy:
		add(false, "No leak was found.")
	case detect.Undecided:
		add(false, "Whether it leaks is undecided: %s.", parts.Leak.Missing)
	}
	for _, t := range parts.Watch.Devices {
		if t.History.Len() == 0 {
			continue
		}
		if !parts.Session.Live { // what is in use after the end says nothing
			peak, percent := t.History.Peak()
			add(percent >= 95, "%s: at most %s in use, %.0f %% of its limit.", t.Device.Label(), units.Bytes(peak),
				percent)
			continue
		}
		last := t.History.Last
		add(t.Risk.Worst >= monitor.High, "%s: %s of %s in use (%.0f %%), OOM risk %s%s.", t.Device.Label(),
			units.Bytes(last.Used), units.Bytes(last.Total),
			last.Percent(), t.Risk.Level, predicted(&t.Risk))
	}
	if d.Session.Lost > 0 {
		add(true, "%d records are not in the tables: see the end of this page.", d.Session.Lost)
	}
}

func heldBy(holder string) string {
	if holder == "" {
		return ""
	}
	return ", held by " + holder
}

func findings(r detect.Report) []Finding {
	const mb = 1 << 20
	list := []Finding{}
	for _, f := range r.Findings {
		j := Finding{Verdict: string(f.Verdict), Class: string(f.Class), Memory: f.Name(), PID: f.PID, Reason: f.Reason,
			Site: f.Site, Holder: f.Holder, Held: f.Held, Evidence: append([]string{}, f.Evidence...),
			Advice: append([]string{}, f.Advice...), Limit: f.Limit}
		if f.Verdict == detect.Leak {
			rate, low, high, start := f.Rate/mb, f.Low/mb, f.High/mb, f.Start
			if j.RateLow, j.RateHigh, j.Start = &low, &high, &start; f.ByTime {
				j.Second = &rate
			} else {
				j.Rate = &rate
			}
			if f.Limit != "" && !math.IsInf(f.Seconds, 0) && !math.IsNaN(f.Seconds) {
				j.Seconds = &f.Seconds
			}
		}
		list = append(list, j)
	}
	return list
}

func predicted(r *monitor.Risk) string {
	if !r.Predicted {
		return ""
	}
	return fmt.Sprintf(", expected in %s (%s to %s)", monitor.Span(r.Seconds), monitor.Span(r.SecondsLow),
		monitor.Span(r.SecondsHigh))
}

// draw puts the devices, the largest processes and the steps below each other over the same time.
func (d *Document) draw(g *gatherer, w *monitor.Watch) {
	d.chart = w.Chart("")
	d.chart.Title, d.chart.Note = "", ""
	begin := w.Started
	if begin.IsZero() {
		begin = d.Session.Started
	}
	var memory []struct {
		Micros int64 `json:"t"`
		PID    int   `json:"pid"`
		Bytes  int64 `json:"bytes"`
	}
	fill(g, &memory, `WITH largest AS (SELECT pid FROM process.memory GROUP BY pid ORDER BY max(rss) DESC LIMIT 6)
		SELECT epoch_us(ts) AS t, pid, rss AS bytes FROM process.memory WHERE pid IN (SELECT pid FROM largest)
		ORDER BY ts`)
	panel := chart.Panel{Title: "resident memory of the largest processes"}
	index := map[int]int{}
	for _, m := range memory {
		i, ok := index[m.PID]
		if !ok {
			i = len(panel.Series)
			index[m.PID] = i
			panel.Series = append(panel.Series, chart.Series{Name: d.nameOf(m.PID)})
		}
		panel.Series[i].X = append(panel.Series[i].X, since(m.Micros, begin))
		panel.Series[i].Y = append(panel.Series[i].Y, float64(m.Bytes))
	}
	if len(memory) > 0 {
		d.chart.Panels = append(d.chart.Panels, panel)
	}
	d.drawSteps(g, begin)
}

func (d *Document) nameOf(pid int) string {
	for _, p := range d.Processes {
		if p.PID == pid && p.Role != "" {
			return fmt.Sprintf("%s %d", p.Role, pid)
		}
	}
	return fmt.Sprint(pid)
}

// drawSteps draws what was held at the end of each step of the process that made the most steps: a leak is a rising
// line.
func (d *Document) drawSteps(g *gatherer, begin time.Time) {
	var steps []struct {
		Micros    int64  `json:"t"`
		HeapInUse *int64 `json:"heap_in_use"`
		Anon      *int64 `json:"anon"`
	}
	const most = `(SELECT pid FROM python.steps GROUP BY pid ORDER BY sum(steps) DESC LIMIT 1)`
	fill(g, &steps, `SELECT epoch_us(ts) AS t, heap_in_use, anon FROM python.steps WHERE pid = `+most+` ORDER BY ts`)
	heap, anon := chart.Series{Name: "heap in use"}, chart.Series{Name: "private resident"}
	for _, s := range steps {
		x := since(s.Micros, begin)
		point(&heap, x, s.HeapInUse)
		point(&anon, x, s.Anon)
	}
	series := append([]chart.Series{heap, anon}, allocatedOn(g, most, begin)...)
	p := chart.Panel{Title: "held at the end of each step"}
	for _, s := range series {
		if len(s.X) > 0 {
			p.Series = append(p.Series, s)
		}
	}
	if len(p.Series) > 0 {
		d.chart.Panels = append(d.chart.Panels, p)
	}
}

// allocatedOn are the lines of the devices that a process's allocators reported.
func allocatedOn(g *gatherer, pid string, begin time.Time) (list []chart.Series) {
	var rows []struct {
		Micros    int64  `json:"t"`
		Device    string `json:"device"`
		Allocated *int64 `json:"allocated"`
	}
	fill(g, &rows, `SELECT epoch_us(ts) AS t, device::VARCHAR AS device, allocated FROM python.step_devices
		WHERE pid = `+pid+` ORDER BY device, ts`)
	for _, r := range rows {
		name := "allocated on " + r.Device
		if n := len(list); n == 0 || list[n-1].Name != name {
			list = append(list, chart.Series{Name: name})
		}
		point(&list[len(list)-1], since(r.Micros, begin), r.Allocated)
	}
	return list
}

func point(s *chart.Series, x float64, y *int64) {
	if y != nil {
		s.X, s.Y = append(s.X, x), append(s.Y, float64(*y))
	}
}

func since(us int64, begin time.Time) float64 {
	return max(0, time.UnixMicro(us).Sub(begin).Seconds())
}
