package page

import (
	"context"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/judge/detect"
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
		Verdict: string(parts.Leak.Verdict), Findings: parts.Leak.Documents(), Risk: parts.Watch.Worst().String(),
		Devices: parts.Watch.Report(monitor.What{Tool: "report", Session: parts.Session.Name, Now: time.Now()}).Devices}
	g := gatherer{ctx: ctx, db: db}
	fill(&g, &d.Processes, questions.Largest(40))
	fill(&g, &d.Events, questions.Events(300))
	fill(&g, &d.Overhead, questions.Costs)
	fill(&g, &d.Drops, questions.Drops(40))
	var raised []detect.Raised
	fill(&g, &raised, questions.Raised)
	d.Peaks = detect.Peaks(raised)
	if g.err != nil {
		return nil, g.err
	}
	var err error
	if d.PostMortem, d.Minute, err = RanOut(ctx, db, d.Processes, d.Devices); err != nil {
		return nil, err
	}
	d.headlines(parts)
	return d, nil
}

// gatherer keeps the first error, so that the queries can follow each other without checks.
type gatherer struct {
	ctx context.Context
	db  api.Querier
	err error
}

func fill[T any](g *gatherer, into *[]T, q questions.Of[T]) {
	*into = []T{}
	if g.err != nil {
		return
	}
	list, err := api.Ask(g.ctx, g.db, q)
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
	for _, p := range d.Peaks {
		add(p.RanOut, "Peak: %s.", p)
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

func predicted(r *monitor.Risk) string {
	if !r.Predicted {
		return ""
	}
	return fmt.Sprintf(", expected in %s (%s to %s)", monitor.Span(r.Seconds), monitor.Span(r.SecondsLow),
		monitor.Span(r.SecondsHigh))
}

func nameOf(processes []questions.Process, pid int) string {
	for _, p := range processes {
		if p.PID == pid && p.Role != "" {
			return fmt.Sprintf("%s %d", p.Role, pid)
		}
	}
	return fmt.Sprint(pid)
}
