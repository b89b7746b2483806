package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/recorded"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type leakOptions struct {
	check       bool
	tracking    bool
	watch       bool
	json        bool
	threshold   float64 // MB/min; with check MB in the check's time; 0: none
	devices     []string
	interval    units.Duration
	window      units.Duration
	duration    units.Duration
	until       int64
	output      string
	job         string
	durationSet bool
}

// checkFor is how long --check watches a live session by default.
const checkFor = 60 * time.Second

func (a *commands) leakCommand() *cobra.Command {
	o := leakOptions{interval: units.Duration(5 * time.Second), duration: units.Duration(600 * time.Second)}
	c := &cobra.Command{
		Use:   "leak",
		Short: "Say whether memory leaks: since when, how fast, who holds it, which line, what to do",
		Long: "Judges each memory of a session, live or finished, by what every step comes back to: the heap, private and shared memory, workers,\n" +
			"devices. The verdict is leak, healthy or undecided; undecided says what is missing. At once from what is recorded, unless --check,\n" +
			"--enable-tracking, --duration or --watch asks to see more of a live session first. With --threshold a leak slower than it does not count.\n" +
			"Exit code 3 means that there is a leak.",
		Example: "  memgauge leak\n" +
			"  memgauge 27891 leak --watch\n" +
			"  memgauge leak --check --threshold 100\n" +
			"  memgauge leak --threshold 10 --enable-tracking --duration 600 --json",
		Args: app.Alone,
		RunE: func(c *cobra.Command, _ []string) error {
			o.durationSet = c.Flags().Changed("duration")
			return a.leak(c.Context(), o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.check, "check", false, "watch a live session for a minute (or --duration), then judge")
	f.BoolVar(&o.tracking, "enable-tracking", false, "take a census now and at the end, so that holders can be named")
	f.BoolVar(&o.watch, "watch", false, "judge while the run goes on, and speak up once, when it is sure")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
	f.Float64Var(&o.threshold, "threshold", 0, "count only what grows by `MB` a minute; with --check: while it watches")
	f.StringSliceVar(&o.devices, "devices", nil, "judge only these `DEVICES`: 0 1 …, host")
	f.Var(&o.interval, "interval", "with --watch: how often to judge")
	f.Var(&o.window, "window", "accepted for older scripts: the judge chooses its own")
	f.Var(&o.duration, "duration", "how long to watch a live session before judging")
	f.Int64Var(&o.until, "until", 0, "judge as of the end of `STEP`: what would have been said then")
	f.StringVarP(&o.output, "output", "o", "", "write the report as JSON to `FILE` as well")
	f.StringVar(&o.job, "job", "", "of a lake: compare the ranks of the job `NAME`")
	return c
}

func (o leakOptions) validate() error {
	switch {
	case o.threshold < 0:
		return app.Usage(errors.New("leak: --threshold is below 0"))
	case o.until < 0:
		return app.Usage(errors.New("leak: --until is below 0"))
	case o.watch && o.until > 0:
		return app.Usage(errors.New("leak: --watch and --until exclude each other"))
	case time.Duration(o.interval) <= 0:
		return app.Usage(errors.New("leak: --interval must be above 0"))
	}
	return nil
}

// patience returns how long a live session is watched before the verdict.
func (o leakOptions) patience() time.Duration {
	switch {
	case o.durationSet || o.tracking:
		return time.Duration(o.duration)
	case o.check:
		return checkFor
	}
	return 0
}

func (a *commands) leak(ctx context.Context, o leakOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	if where := a.Lake(); where != "" {
		return a.leakLake(ctx, o, where)
	}
	if o.job != "" {
		return app.Usage(errors.New("leak: --job is about a lake: memgauge lake=/data/lake leak --job NAME"))
	}
	if all, err := a.comparesJobs(o); err != nil {
		return err
	} else if all {
		return a.leakJobs(ctx, o)
	}
	q := leakQuestion(o.json)
	q.Ask = func(ctx context.Context, t ask.Target) (judged, error) { return a.judge(ctx, o, t) }
	if o.output != "" {
		q.Save = func(v judged) error { return v.save(o.output) }
	}
	return app.Put(ctx, a.App, q)
}

// judged is the verdict on a session, with what its presentation needs.
type judged struct {
	report detect.Report
	peaks  []detect.Peak
	of     leakContext
}

// leakQuestion is how a verdict is shown.
func leakQuestion(asJSON bool) app.Question[judged] {
	return app.Question[judged]{Role: source.Leak, JSON: asJSON,
		Text: func(w io.Writer, v judged) error {
			_, err := io.WriteString(w, leakText(v.report, v.of)+peakLines(v.peaks, v.of.Cwd))
			return err
		},
		Document: func(v judged) any { return v.document() },
		Outcome: func(v judged) error {
			if v.report.Verdict == detect.Leak {
				return app.Exit(app.ExitFindings, nil)
			}
			return nil
		}}
}

// document is the verdict as JSON.
func (v judged) document() leakDocument {
	d := leakJSON(v.report, v.of)
	d.Peaks = v.peaks
	return d
}

// peakLines tells of peaks that belong to one phase.
func peakLines(peaks []detect.Peak, cwd string) string {
	var b strings.Builder
	for _, p := range peaks {
		p.Site = strings.TrimPrefix(p.Site, strings.TrimSuffix(cwd, "/")+"/")
		plain.Fprintf(&b, "peak  %s\n  %-9s %s\n", p, "do", p.Advice)
	}
	return b.String()
}

// save writes the report as JSON to a file.
func (v judged) save(path string) error {
	out, err := sink.Create(path)
	if err != nil {
		return fmt.Errorf("leak: %w", err)
	}
	defer out.Discard()
	if err = doc.WriteJSON(out, v.document()); err == nil {
		err = out.Commit()
	}
	if err != nil {
		return fmt.Errorf("leak: %w", err)
	}
	return nil
}

// judge asks a session for its verdict, after it has been watched for as long as the options say.
func (a *commands) judge(ctx context.Context, o leakOptions, t ask.Target) (v judged, err error) {
	about := t.About()
	session, err := t.Connect(ctx)
	if err != nil {
		return v, fmt.Errorf("leak: %w", err)
	}
	defer session.Close()
	if about.Live {
		err = a.leakWatch(ctx, o, session, t.IsLive)
		if err != nil && ctx.Err() != nil {
			err = nil // Ctrl-C: judge what is known by now
			ctx = context.WithoutCancel(ctx)
		}
		if err != nil {
			return v, fmt.Errorf("leak: %w", err)
		}
	}
	if len(o.devices) > 0 {
		there, err := recorded.New(session).Devices(ctx)
		if err == nil {
			err = monitor.Check(there, o.devices)
		}
		if err != nil {
			return v, fmt.Errorf("leak: %w", err)
		}
	}
	r, err := session.Leak(ctx, api.LeakRequest{Until: o.until, Devices: o.devices})
	if err != nil {
		return v, fmt.Errorf("leak: %w", err)
	}
	o.ignoreSlow(&r)
	peaks, err := peaksOf(ctx, session, o.until)
	if err != nil {
		return v, fmt.Errorf("leak: %w", err)
	}
	end := endOf(ctx, session)
	if end.OOM != "" {
		r.Warnings = append(slices.Clone(r.Warnings), fmt.Sprintf("the run ended because memory ran out: "+
			"`memgauge %[1]s oom` says which, `memgauge %[1]s report` shows the minute before", about.Name))
	}
	of := contextOf(about, end.Ended)
	of.Threshold, of.Tracking, of.Check = o.threshold, o.tracking, o.check
	return judged{r, peaks, of}, nil
}

// peaksOf are the peaks that belong to one phase of the training. What was said at an earlier step had none.
func peaksOf(ctx context.Context, s api.Session, until int64) ([]detect.Peak, error) {
	if until > 0 {
		return []detect.Peak{}, nil
	}
	raised, err := api.Ask(ctx, s, questions.Raised)
	return detect.Peaks(raised), err
}

func contextOf(about api.About, ended time.Time) leakContext {
	return leakContext{Session: about.Name, Cwd: about.Cwd, Command: about.Command, Live: about.Live,
		Started: about.Started, Ended: ended, Now: time.Now()}
}

// endOf is how a session's job ended; nothing while it runs, or where that can't be said.
func endOf(ctx context.Context, s api.Session) api.End {
	end, err := s.End(ctx)
	if err != nil {
		return api.End{}
	}
	return end
}

// leakWatch watches a live session before it is judged.
func (a *commands) leakWatch(ctx context.Context, o leakOptions, session api.Session, live func() bool) error {
	patience := o.patience()
	if patience <= 0 && !o.watch {
		return nil
	}
	if o.tracking {
		a.leakCensus(ctx, session)
	}
	end := time.Now().Add(patience)
	for live() && (o.watch && patience == 0 || time.Now().Before(end)) {
		wait := time.Duration(o.interval)
		if left := time.Until(end); patience > 0 && left < wait {
			wait = left
		}
		if err := pauseWhile(ctx, wait, live); err != nil {
			return err
		}
		if o.watch && live() {
			r, err := session.Leak(ctx, api.LeakRequest{Devices: o.devices})
			if err != nil && live() {
				return err
			}
			if o.ignoreSlow(&r); err == nil && r.Verdict == detect.Leak {
				return nil
			}
		}
	}
	if o.tracking && live() {
		a.leakCensus(ctx, session)
	}
	return nil
}

// leakCensus takes a census of what is held. If that fails, the verdict says so.
func (a *commands) leakCensus(ctx context.Context, session api.Session) {
	if _, err := session.Census(ctx, api.CensusRequest{}); err != nil && ctx.Err() == nil {
		plain.Fprintf(a.Stderr, "memgauge: no census: %v\n", err)
	}
}

// liveEvery is the interval at which a pause checks whether the session still runs.
const liveEvery = 200 * time.Millisecond

func pauseWhile(ctx context.Context, d time.Duration, live func() bool) error {
	end := time.Now().Add(d)
	for time.Now().Before(end) && live() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(liveEvery, time.Until(end))):
		}
	}
	return nil
}

// ignoreSlow withdraws the verdict of leaks that are slower than the user's threshold: at their late pace, over a
// minute or over the time that a check takes. What had grown before a check says nothing about it.
func (o leakOptions) ignoreSlow(r *detect.Report) {
	if o.threshold == 0 {
		return
	}
	window := time.Minute
	if o.check {
		window = o.patience()
	}
	r.Ignore(func(f detect.Finding) bool {
		return f.PerSec > 0 && f.PerSec*window.Seconds() < o.threshold*float64(units.MiB)
	}, fmt.Sprintf("it is below the threshold of %g MB in %s", o.threshold, units.Duration(window)))
}

// plain says that nothing but the verdict by now is asked.
func (o leakOptions) plain() bool {
	return !o.check && !o.tracking && !o.watch && !o.durationSet && o.until == 0 && o.threshold == 0 &&
		len(o.devices) == 0 && o.output == ""
}
