package watch

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/follow"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/page"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/forecast"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type reportOptions struct {
	output string
	json   bool
}

func (a *commands) reportCommand() *cobra.Command {
	var o reportOptions
	c := &cobra.Command{
		Use:   "report",
		Short: "Write one self-contained page about a session",
		Long: "Writes one HTML page about a session, live or finished, with the views of memgauge web: memory\n" +
			"over time to zoom into, where the bytes are at each moment, verdicts with the source around them,\n" +
			"tensors, events, and what observing cost; of a session that keeps a memory snapshot, a flame graph.\n" +
			"All of it is in the file, which asks no network and no server. After an OOM kill or an allocator's\n" +
			"out-of-memory error it begins with the minute around it.",
		Example: "  memgauge report\n" +
			"  memgauge 27891 report -o run.html\n" +
			"  memgauge report --json",
		Args: app.Alone,
		RunE: func(c *cobra.Command, _ []string) error { return a.sessionReport(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "",
		"write to `FILE` (default memgauge-NAME.html, with --json standard output)")
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	return c
}

func (a *commands) sessionReport(ctx context.Context, o reportOptions) error {
	if one, err := a.Narrow(ctx); err == nil && !one && o.json {
		return a.reports(ctx, o)
	}
	t, err := a.Target(ctx)
	if err != nil {
		return err
	}
	var out sink.Sink = &sink.Spool{To: a.Answer(o.json)}
	file, make := o.output, sink.Create
	if file == "" && !o.json {
		file, make = reportName(t), sink.CreateNamed
	}
	if file != "" {
		if out, err = make(file); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	defer out.Discard()
	if err := write(ctx, out, t, o.json); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if file != "" {
		plain.Fprintf(a.Stderr, "memgauge: wrote %s\n", file)
	}
	return nil
}

// reportName is the default name of a report. The session's own may come from another machine.
func reportName(t ask.Target) string { return "memgauge-" + rootdir.Element(t.Name()) + ".html" }

// reports prints the report of each session that is meant, as JSON.
func (a *commands) reports(ctx context.Context, o reportOptions) error {
	if o.output != "" {
		return a.OneFile()
	}
	return app.Put(ctx, a.App, app.Question[*page.Document]{Role: source.Session, JSON: true,
		Ask: func(ctx context.Context, t ask.Target) (*page.Document, error) {
			d, err := gather(ctx, t)
			if err != nil {
				return nil, fmt.Errorf("report: %w", err)
			}
			return d, nil
		},
		Document: func(d *page.Document) any { return d }})
}

func gather(ctx context.Context, t ask.Target) (*page.Document, error) {
	src, err := targetSource(ctx, t, false)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return document(ctx, src)
}

// write queries the session for what a report has, and writes it.
func write(ctx context.Context, out io.Writer, t ask.Target, asJSON bool) error {
	src, err := targetSource(ctx, t, false)
	if err != nil {
		return err
	}
	defer src.Close()
	d, err := document(ctx, src)
	if err != nil {
		return err
	}
	if asJSON {
		return doc.WriteJSON(out, d)
	}
	return web.WriteReport(ctx, out, src.Session, d)
}

func document(ctx context.Context, src *follow.Source) (*page.Document, error) {
	w, err := monitor.New(ctx, src, monitor.Options{Job: src.Job(),
		OOM: monitor.OOMOptions{Threshold: forecast.DefaultThreshold, Critical: forecast.DefaultCritical,
			Window: forecastWindow}})
	if err != nil {
		return nil, err
	}
	if _, err := w.Tick(ctx); err != nil {
		return nil, err
	}
	src.AddEvents(w)
	about, err := aboutSession(ctx, src.Session)
	if err != nil {
		return nil, err
	}
	leak, err := src.Session.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return nil, err
	}
	d, err := page.Gather(ctx, src.Session, page.Parts{Session: about, Watch: w, Leak: leak})
	if err != nil {
		return nil, err
	}
	// the session's processes may end just now; the page then lacks their part
	if where, err := src.Session.Where(ctx); err == nil {
		d.Where = &where.Picture
	}
	return d, nil
}

func aboutSession(ctx context.Context, s api.Session) (page.Session, error) {
	sum, err := s.Summary(ctx)
	if err != nil {
		return page.Session{}, err
	}
	m, err := s.About(ctx)
	if err != nil {
		return page.Session{}, err
	}
	end, err := s.End(ctx)
	if err != nil {
		return page.Session{}, err
	}
	about := page.Session{ID: m.ID, Name: m.Name, Command: m.Command, Cwd: m.Cwd, Host: m.Host, State: "running",
		Live: end.Live, Started: m.Started, Steps: sum.Steps, PeakRSS: sum.PeakRSS, Ranks: sum.Ranks, Rows: sum.Rows,
		Lost: sum.Lost, Memgauge: m.Memgauge}
	switch {
	case end.Live:
	case end.Known:
		ended := end.Ended.UTC().Truncate(time.Microsecond)
		about.State, about.Ended, about.PeakRSS = end.Text, &ended, max(end.Peak, sum.PeakRSS)
	default:
		about.State = "ended unseen"
	}
	return about, nil
}
