package watch

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/chart"
	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/follow"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// watchOptions are the flags that profile, oom, fragment and monitor share.
type watchOptions struct {
	tool         string
	devices      []string
	duration     units.Duration // 0: until Ctrl-C
	interval     units.Duration
	output       string
	plot         string // "" for none
	json         bool
	history      int
	wholeMachine bool // not the only live session
	timed        bool // the user has said how long: then a session is watched, not only looked up
	oom          monitor.OOMOptions
	leak         bool          // query the verdict over a session's steps too
	blocks       time.Duration // interval of reading blocks; 0: never
}

const (
	minInterval = 10 * time.Millisecond // reading host and GPUs takes some 0.1 to 1 ms
	hurried     = 100 * time.Millisecond
	attentive   = 500 * time.Millisecond
	maxSilence  = 250 * time.Millisecond
)

func (o *watchOptions) AddFlags(f *pflag.FlagSet, duration, interval string) {
	_ = o.duration.Set(duration)
	_ = o.interval.Set(interval)
	f.StringSliceVar(&o.devices, "devices", nil, "watch these `DEVICES` only: host, 0, 1 … (default all)")
	f.Var(&o.duration, "duration", "watch for so many seconds, or a `DURATION` such as 5m; 0 until Ctrl-C")
	f.Var(&o.interval, "interval", "read each so many seconds, or a `DURATION`")
	f.StringVarP(&o.output, "output", "o", "", "write the report to `FILE`, as JSON (docs/cli-json.md)")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
	f.BoolVar(&o.wholeMachine, "machine", false, "look at the whole machine, though a session is live")
	f.Lookup("duration").DefValue, f.Lookup("interval").DefValue = duration+" s", interval+" s"
}

func (o *watchOptions) addPlot(f *pflag.FlagSet) {
	f.StringVar(&o.plot, "plot", "", "draw `FILE`.png, .svg or .html (default memgauge-"+o.tool+".png)")
	f.Lookup("plot").NoOptDefVal = "memgauge-" + o.tool + ".png"
}

var deviceName = pattern.Of(`^(?i:[0-9]+|host|cpu|(cuda|gpu):?[0-9]+)$`)

// take interprets positional arguments: more devices after `--devices 0`, and the file after `--plot`.
func (o *watchOptions) take(c *cobra.Command, args []string) error {
	for _, arg := range args {
		switch {
		case c.Flags().Changed("devices") && deviceName().MatchString(arg):
			o.devices = append(o.devices, arg)
		case o.plot != "" && filepath.Ext(arg) != "":
			o.plot = arg
		default:
			return app.Usage(fmt.Errorf("%s: %w", c.Name(), app.Alone(c, args)))
		}
	}
	o.timed = c.Flags().Changed("duration") || c.Flags().Changed("monitor")
	return o.check()
}

func (o *watchOptions) check() error {
	if time.Duration(o.interval) < minInterval {
		return app.Usage(fmt.Errorf("%s: --interval %s: at least %s", o.tool, o.interval, minInterval))
	}
	if o.plot != "" && plotFormat(o.plot) == "" {
		return app.Usage(remedy.Add(fmt.Errorf("%s: --plot %s: no kind of picture has that ending", o.tool, o.plot),
			"end the name in .png, .svg or .html"))
	}
	if p := o.oom; p.Threshold < 0 || p.Threshold > 100 || p.Critical < 0 || p.Critical > 100 {
		return app.Usage(fmt.Errorf("%s: --threshold and --critical are percentages between 0 and 100", o.tool))
	}
	if o.oom.Critical < o.oom.Threshold {
		return app.Usage(fmt.Errorf("%s: --critical %g lies below --threshold %g", o.tool, o.oom.Critical,
			o.oom.Threshold))
	}
	return nil
}

func plotFormat(name string) string {
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".png", ".svg", ".html", ".htm":
		return strings.TrimSuffix(ext, "l")
	}
	return ""
}

// outputs opens the files of a watch before it begins, so that one that can't be written is reported at once.
type outputs struct {
	report, plot sink.Sink
}

func (o *watchOptions) open() (out outputs, err error) {
	if o.output != "" {
		if out.report, err = sink.Create(o.output); err != nil {
			return out, fmt.Errorf("%s: %w", o.tool, err)
		}
	}
	if o.plot != "" {
		make := sink.Create
		if o.plot == "memgauge-"+o.tool+".png" {
			make = sink.CreateNamed
		}
		if out.plot, err = make(o.plot); err != nil {
			out.Discard()
			return out, fmt.Errorf("%s: %w", o.tool, err)
		}
	}
	return out, nil
}

func (out *outputs) Discard() {
	for _, s := range []sink.Sink{out.report, out.plot} {
		if s != nil {
			s.Discard()
		}
	}
}

// watch runs a tool from its options to its report.
func (a *commands) watch(ctx context.Context, o watchOptions) (*monitor.Watch, error) {
	out, err := o.open()
	if err != nil {
		return nil, err
	}
	defer out.Discard()
	src, err := a.openSource(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.tool, err)
	}
	defer src.Close()
	v, err := o.look(ctx, src, a.newScreen(o))
	if err != nil {
		return nil, err
	}
	return v.watch, o.deliver(a, v, out)
}

// watched is a watch that is over.
type watched struct {
	watch    *monitor.Watch
	report   *monitor.Report
	warnings string // as they were told meanwhile, where nobody heard them
}

// look reads a source until the report is due.
func (o *watchOptions) look(ctx context.Context, src *follow.Source, screen *screen) (v watched, err error) {
	src.Once = src.Once || o.tool == "fragment" && !src.FromTables() // no process has blocks, however long we wait
	w, err := monitor.New(ctx, src, monitor.Options{Devices: o.devices, Interval: time.Duration(o.interval),
		MaxHistory: o.history, OOM: o.oom, Job: src.Job()})
	if err != nil {
		return v, fmt.Errorf("%s: %w", o.tool, err)
	}
	interrupted, err := o.loop(ctx, src, w, screen)
	screen.line.Clear()
	if err != nil {
		return v, fmt.Errorf("%s: %w", o.tool, err)
	}
	if src.FindEnd(ctx) {
		w.Over(src.Killed())
	}
	src.AddEvents(w)
	if err := o.addLeaks(ctx, src, w); err != nil {
		return v, fmt.Errorf("%s: %w", o.tool, err)
	}
	if o.tool == "oom" && src.Session != nil && (src.Once || !src.Ended()) {
		if w.Peaks, err = peaksOf(context.WithoutCancel(ctx), src.Session, 0); err != nil {
			return v, fmt.Errorf("%s: %w", o.tool, err)
		}
	}
	return watched{watch: w, report: w.Report(monitor.What{Tool: o.tool, Session: src.Name(), Interrupted: interrupted,
		Ended: src.End, Snapshots: o.tool == "profile", Now: time.Now()})}, nil
}

// addLeaks queries the verdict over a session's steps, and adds the leaks to the report.
func (o *watchOptions) addLeaks(ctx context.Context, src *follow.Source, w *monitor.Watch) error {
	if !o.leak || src.Session == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // Ctrl-C ends the watch only
	if src.Ended() {                 // then its collector is gone or about to end
		return nil
	}
	r, err := src.Session.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return err
	}
	for _, f := range r.Findings {
		if f.Verdict == detect.Leak {
			w.Leaks = append(w.Leaks, f.Name()+" "+f.PerStep())
		}
	}
	return nil
}

// loop reads until the time is over, the job has ended, or Ctrl-C. Without a duration a session is read once.
func (o *watchOptions) loop(ctx context.Context, src *follow.Source, w *monitor.Watch, s *screen) (interrupted bool,
	err error) {
	next := time.NewTimer(time.Duration(o.interval))
	defer next.Stop()
	began, looked := time.Now(), time.Time{}
	for due := began; ; {
		warnings, err := w.Tick(ctx)
		if ctx.Err() != nil {
			return true, nil
		}
		if err != nil && endsSoon(ctx, src) { // its collector went with it
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for i := range warnings {
			if src.End == "" { // after the job's end there is nothing to warn of: the report has it
				s.warn(&warnings[i])
			}
		}
		if o.blocks > 0 && time.Since(looked) >= o.blocks {
			looked = time.Now()
			if err := w.LookAtBlocks(ctx, looked); err != nil && ctx.Err() == nil {
				return false, err
			}
			o.blocks = max(o.blocks, 20*time.Since(looked)) // reading stops the allocator: for 5 % of the time at most
		}
		spent := time.Since(began)
		if src.Once || src.Ended() || o.duration > 0 && spent+time.Duration(o.interval) > time.Duration(o.duration) {
			return false, nil
		}
		s.Show(w, spent)
		if due = due.Add(o.pace(w)); time.Since(due) > 0 { // late readings are skipped
			due = time.Now()
		}
		next.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return true, nil
		case <-next.C:
		}
	}
}

// pace returns the interval. While memory grows fast towards its limit, the tools that warn of it read more often.
func (o *watchOptions) pace(w *monitor.Watch) time.Duration {
	interval := time.Duration(o.interval)
	switch {
	case o.tool == "profile" || o.oom.Threshold <= 0:
	case w.Rushes(interval):
		return min(interval, hurried)
	case w.Nears():
		return min(interval, attentive)
	}
	return interval
}

// deliver prints the report and writes the files.
func (o *watchOptions) deliver(a *commands, v watched, out outputs) error {
	if out.report != nil {
		if err := doc.WriteJSON(out.report, v.report); err != nil {
			return fmt.Errorf("%s: %w", o.tool, err)
		}
	}
	if out.plot != nil {
		if err := o.draw(v.watch, out.plot); err != nil {
			return fmt.Errorf("%s: %w", o.tool, err)
		}
	}
	for _, s := range []sink.Sink{out.report, out.plot} {
		if s == nil {
			continue
		}
		if err := s.Commit(); err != nil {
			return fmt.Errorf("%s: %w", o.tool, err)
		}
	}
	if o.json {
		return doc.WriteJSON(a.Stdout, v.report)
	}
	if _, err := io.WriteString(a.Text(), v.text()); err != nil {
		return fmt.Errorf("%s: write the report: %w", o.tool, err)
	}
	for _, file := range []string{o.output, o.plot} {
		if file != "" {
			plain.Fprintf(a.Stderr, "memgauge: wrote %s\n", file)
		}
	}
	return nil
}

func (o *watchOptions) draw(w *monitor.Watch, to sink.Sink) error {
	title := "memgauge " + o.tool
	c := w.Chart(title)
	if o.tool == "fragment" {
		c = w.BlocksChart(title)
		if len(c.Panels) == 0 {
			c = w.Chart(title)
			c.Note = "no blocks could be had: " + strings.Join(missingBlocks(w), "; ")
		}
	}
	switch plotFormat(o.plot) {
	case ".svg":
		return c.WriteSVG(to)
	case ".htm":
		return chart.WritePage(to, c)
	}
	return c.WritePNG(to)
}

func missingBlocks(w *monitor.Watch) (why []string) {
	for _, t := range w.Devices {
		if t.Blocks.Why != "" {
			why = append(why, t.Device.Label()+": "+t.Blocks.Why)
		}
	}
	return why
}

// text is the report for people.
func (v watched) text() string {
	w, r := v.watch, v.report
	var text strings.Builder
	if len(r.Evidence) == 0 {
		fmt.Fprintln(&text, "nothing was read")
	}
	plain.Fprintf(&text, "%s", strings.ToUpper(r.Verdict))
	if r.Duration > 0 {
		plain.Fprintf(&text, "  %s over %s", doc.Plural(w.Readings(), "reading"), monitor.Span(r.Duration))
	}
	fmt.Fprintln(&text)
	for _, e := range r.Evidence {
		plain.Fprintf(&text, "  %s\n", e)
	}
	for _, t := range w.Devices {
		if p := &t.Risk; t.Foreseen() {
			plain.Fprintf(&text, "  %s: OOM expected in %s (%s to %s), confidence %.2f\n", t.Device.Label(),
				monitor.Span(p.Seconds),
				monitor.Span(p.SecondsLow), monitor.Span(p.SecondsHigh), p.Confidence)
		}
	}
	for _, advice := range r.Recommendations {
		plain.Fprintf(&text, "  do  %s\n", advice)
	}
	for _, p := range r.Peaks {
		plain.Fprintf(&text, "  peak  %s\n    do  %s\n", p, p.Advice)
	}
	return text.String()
}

// found returns the exit code for high risk or a leak.
func found(w *monitor.Watch, err error) error {
	if err == nil && (w.Worst() >= monitor.High || len(w.Leaks) > 0) {
		return app.Exit(app.ExitFindings, nil)
	}
	return err
}
