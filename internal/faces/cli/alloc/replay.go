package alloc

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/chart"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/replay"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type allocReplayOptions struct {
	policies []string
	confs    []string
	device   int
	capacity units.Bytes
	json     bool
	plot     string
	repeat   int
	timeout  units.Duration
}

// maxRepeat bounds --repeat. Every policy reaches its steady state with fewer repetitions.
const maxRepeat = 1000

func (a *commands) allocReplayCommand() *cobra.Command {
	o := allocReplayOptions{timeout: units.Duration(dumpTimeout)}
	c := &cobra.Command{
		Use:   "replay [TRACE]",
		Short: "Replay a program's allocations under other policies and settings",
		Long: "Replays the allocations and frees in TRACE and shows, for each policy and setting, the most bytes that were asked for and\n" +
			"reserved at once, the waste between the two, and how often the driver was called. Policies: torch (PyTorch's rules), packed (free\n" +
			"segments go back before more is reserved), vmm (segments that grow in virtual memory), direct (no cache). \"recorded\" is what\n" +
			"the allocator did that the trace was taken from, where the trace tells; without --conf torch has the settings of the recording.\n" +
			"Time is the replay's, in processor time. Without TRACE the session's trainer is asked for a snapshot, as by alloc advise.",
		Example: "  memgauge alloc replay snapshot.pickle\n" +
			"  memgauge 27891 alloc replay\n" +
			"  memgauge alloc replay snapshot.pickle --policy torch --conf expandable_segments:True --conf max_split_size_mb:128\n" +
			"  memgauge alloc replay rmm.csv --policy torch,packed,vmm --capacity 40GiB --plot replay.png",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.allocReplay(cmd.Context(), o, args) },
	}
	f := c.Flags()
	f.StringSliceVar(&o.policies, "policy", []string{"torch", "packed", "vmm"},
		"`POLICIES`, separated by commas: torch, packed, vmm, direct")
	f.StringArrayVar(&o.confs, "conf", nil,
		"settings as in PYTORCH_ALLOC_CONF, for each policy; may be given several times (`CONF`)")
	f.IntVar(&o.device, "device", -1, "the device `N`, if the trace has several")
	f.Lookup("device").DefValue = "0" // what pflag takes for no default worth printing
	f.Var(&o.capacity, "capacity",
		"memory of the device; cached memory is given back when it is full (default: it is never full)")
	f.Lookup("capacity").DefValue = "0"
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.IntVar(&o.repeat, "repeat", 1,
		"play the history `N` times, as a training repeats its step; driver calls are then told turn by turn")
	f.Var(&o.timeout, "timeout", "how long the trainer may take to write its snapshot")
	f.StringVar(&o.plot, "plot", "", "draw what was reserved against what was asked for to `FILE`.png or .svg")
	return c
}

func (o *allocReplayOptions) check() error {
	if _, err := replay.Settings(o.policies, nil); err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	if _, err := replay.Settings(o.policies, o.confs); err != nil {
		return fmt.Errorf("--conf: %w", err)
	}
	if o.repeat < 1 || o.repeat > maxRepeat {
		return fmt.Errorf("--repeat from 1 to %d", maxRepeat)
	}
	return checkPlotName(o.plot)
}

// settings returns the settings to replay. PyTorch's rules get those of the recording unless the user gives others.
func (o *allocReplayOptions) settings(of []snapshot.Setting) ([]replay.Setting, error) {
	all, err := replay.Settings(o.policies, o.confs)
	if err != nil {
		return nil, err
	}
	recorded, err := replay.Recorded(of)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if len(o.confs) == 0 && all[i].Options.Policy == recorded.Options.Policy {
			all[i] = recorded
		}
	}
	return all, nil
}

func (a *commands) allocReplay(ctx context.Context, o allocReplayOptions, args []string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("alloc replay: %w", err)
		}
	}()
	if err := o.check(); err != nil {
		return app.Usage(err)
	}
	var plot sink.Sink
	if o.plot != "" {
		if plot, err = sink.Create(o.plot); err != nil {
			return err
		}
		defer plot.Discard()
	}
	path, err := a.snapshotOf(ctx, "replay", o.timeout, args)
	if err != nil {
		return err
	}
	t, err := readTrace(path, o.device)
	if err != nil {
		return err
	}
	defer t.Close()
	settings, err := o.settings(t.Settings)
	if err != nil {
		return err
	}
	unknown := replay.UnknownConf(t.Settings)
	results, err := replay.Each(ctx, t, settings, int64(o.capacity), o.repeat)
	if err != nil {
		return err
	}
	if plot != nil {
		name := filepath.Base(path)
		if err := writePlot(plot, o.plot, replayChart(name, t, results, int64(o.capacity))); err != nil {
			return err
		}
	}
	out := &sink.Spool{To: a.Answer(o.json)}
	defer out.Discard()
	show := showReplay
	if o.json {
		show = showReplayJSON
	}
	if err := show(out, t, results, unknown, term.TerminalWidth(a.Stdout)); err != nil {
		return err
	}
	return out.Commit()
}

func checkPlotName(name string) error {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png", ".svg":
		return nil
	}
	if name == "" {
		return nil
	}
	return remedy.Add(fmt.Errorf("--plot %s: unknown kind of picture", name), "end the name in .png or .svg")
}

func writePlot(w sink.Sink, name string, c chart.Chart) error {
	draw := c.WritePNG
	if strings.EqualFold(filepath.Ext(name), ".svg") {
		draw = c.WriteSVG
	}
	if err := draw(w); err != nil {
		return err
	}
	return w.Commit()
}

// recordedPeak returns the peak of reserved bytes in the recording; 0 if the trace lacks it or it can't be right.
func recordedPeak(t *snapshot.Trace, requested int64) int64 {
	if t.Recorded == nil || t.Recorded.Peak < requested {
		return 0
	}
	return t.Recorded.Peak
}

// showReplay prints the table and a sentence with its conclusion.
func showReplay(w io.Writer, t *snapshot.Trace, results []*replay.Result, unknown []string, width int) error {
	l := &doc.Listing{Head: []model.Column{doc.Text("policy"), doc.Number("peak requested"),
		doc.Number("peak reserved"),
		doc.Number("waste"), doc.Number("driver calls"), doc.Number("time")}}
	requested := results[0].PeakRequested
	if peak := recordedPeak(t, requested); peak > 0 {
		waste := float64(peak)/float64(max(requested, 1)) - 1
		l.Rows = append(l.Rows, []any{"recorded", doc.Size(requested), doc.Size(peak), percent(waste),
			units.Count(int64(t.Recorded.SegmentOps)), ""})
	}
	for _, r := range results {
		reserved := doc.Size(r.PeakReserved)
		if r.OOM != nil {
			reserved += " OOM"
		}
		l.Rows = append(l.Rows, []any{r.Setting, doc.Size(r.PeakRequested), reserved, percent(r.Waste()),
			driverCalls(r),
			units.Duration(r.Elapsed).String()})
	}
	if err := render.Write(w, l, render.Table, render.Options{Width: width, NoRows: true, Spare: []string{"time"},
		Whole: doc.WholeTables}); err != nil {
		return err
	}
	for _, r := range results {
		if r.OOM != nil {
			if _, err := plain.Fprintf(w, "%s: out of memory at event %s, for %s\n", r.Setting,
				units.Count(int64(r.OOM.Event)), doc.Size(r.OOM.Size)); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprint(w, lacking(results[0].Lacking)+fidelity(t, ofRecorded(results), unknown), saved(t, results))
	return err
}

// ofRecorded returns the result of the settings with which the history was recorded; nil if they were not replayed.
func ofRecorded(results []*replay.Result) *replay.Result {
	for _, r := range results {
		if r.Recorded {
			return r
		}
	}
	return nil
}

// beyond returns how many bytes more the recorded settings reserve in the replay than they did in the recording. ok is
// true if both are known.
func beyond(t *snapshot.Trace, r *replay.Result) (bytes int64, ok bool) {
	if r == nil || r.OOM != nil || recordedPeak(t, r.PeakRequested) == 0 {
		return 0, false
	}
	return r.FirstPeak() - t.Recorded.Peak, true
}

// lacking says which events the replay had to make up or leave out; "" for none.
func lacking(l replay.Lacking) string {
	var b strings.Builder
	if l.Frees > 0 {
		plain.Fprintf(&b, "Frees that the history lacks: %s. The replay frees a block when its address is "+
			"allocated again.\n", units.Count(int64(l.Frees)))
	}
	if l.Allocations > 0 {
		plain.Fprintf(&b, "Frees of blocks that the history has not allocated, left out: %s.\n",
			units.Count(int64(l.Allocations)))
	}
	return b.String()
}

// fidelity says in a sentence how far the replay differs from the recording; "" if they agree to the byte.
func fidelity(t *snapshot.Trace, r *replay.Result, unknown []string) string {
	var b strings.Builder
	if len(unknown) > 0 {
		plain.Fprintf(&b, "Recorded settings that the replay does not know: %s.\n", strings.Join(unknown, ", "))
	}
	if r != nil && t.Recorded != nil && t.Recorded.Peak < r.PeakRequested {
		plain.Fprintf(&b,
			"The history contradicts itself: the program held %s while %s were reserved. It is not compared.\n",
			doc.Size(r.PeakRequested), doc.Size(t.Recorded.Peak))
	}
	if off, _ := beyond(t, r); off != 0 {
		plain.Fprintf(&b,
			"The replay of the recorded settings is off by %s (%s) from the recorded peak: no difference below that means anything.\n",
			doc.SignedSize(off), percent(float64(off)/float64(t.Recorded.Peak)))
	}
	return b.String()
}

// driverCalls formats the number of driver calls of each repetition, or the total.
func driverCalls(r *replay.Result) string {
	if len(r.Turns) < 2 {
		return units.Count(r.DriverCalls)
	}
	var turns []string
	for _, t := range r.Turns {
		turns = append(turns, units.Count(t.DriverCalls))
	}
	return strings.Join(turns, " + ")
}

// saved says in a sentence how much the best result saves, compared with the recording or with the first result.
func saved(t *snapshot.Trace, results []*replay.Result) string {
	base, name := recordedPeak(t, results[0].PeakRequested), "the recorded allocator"
	if base == 0 {
		base, name = results[0].PeakReserved, results[0].Setting
	}
	best := -1
	for i, r := range results {
		if r.OOM == nil && (best < 0 || r.PeakReserved < results[best].PeakReserved) {
			best = i
		}
	}
	if best < 0 || results[best].PeakReserved >= base {
		return ""
	}
	less, limit := base-results[best].PeakReserved, int64(0)
	if off, ok := beyond(t, ofRecorded(results)); ok {
		less, limit = less+min(off, 0), max(off, -off)
	}
	if less <= limit {
		return ""
	}
	return fmt.Sprintf("%s would have reserved %s (%s) less than %s.\n", results[best].Setting, doc.Size(less),
		percent(float64(less)/float64(base)), name)
}

// replayChart draws reserved and requested bytes over the events.
func replayChart(name string, t *snapshot.Trace, results []*replay.Result, capacity int64) chart.Chart {
	requested := replay.Requested(t)
	series := []chart.Series{{Name: "requested", X: requested.Event, Y: requested.Bytes, Area: true}}
	end := float64(t.Events.Len())
	for _, r := range results {
		if n := len(r.Curve.Event); n > 0 {
			end = max(end, r.Curve.Event[n-1])
		}
	}
	for _, r := range results {
		series = append(series, steps(r.Setting, &r.Curve, end))
	}
	if recordedPeak(t, results[0].PeakRequested) > 0 {
		s := steps("recorded", replay.Reserved(t), end)
		s.Thin = true
		series = append(series, s)
	}
	p := chart.Panel{Title: "reserved, and requested by the program", Unit: chart.Bytes, Series: series}
	if capacity > 0 {
		p.Levels = []chart.Level{{Name: "device " + doc.Size(capacity), Value: float64(capacity), Alarm: true}}
	}
	c := chart.Chart{Title: "Replay of " + name, Note: strings.TrimSpace(saved(t, results)),
		Across: "event of the trace", Panels: []chart.Panel{p}}
	for _, r := range results {
		if r.OOM != nil {
			c.Events = append(c.Events, chart.Event{Seconds: float64(r.OOM.Event), Text: r.Setting + ": out of memory",
				Bad: true})
		}
	}
	return c
}

// steps draws a quantity that holds until its next value, to the end.
func steps(name string, c *replay.Curve, end float64) chart.Series {
	s := chart.Series{Name: name}
	for i := range c.Event {
		if i > 0 {
			s.X, s.Y = append(s.X, c.Event[i]), append(s.Y, c.Bytes[i-1])
		}
		s.X, s.Y = append(s.X, c.Event[i]), append(s.Y, c.Bytes[i])
	}
	if n := len(s.Y); n > 0 && s.X[n-1] < end {
		s.X, s.Y = append(s.X, end), append(s.Y, s.Y[n-1])
	}
	return s
}

// The JSON of alloc replay and advise is documented in docs/cli-json.md.
type replayJSON struct {
	Setting       string     `json:"setting"`
	PeakRequested int64      `json:"peak_requested_bytes"`
	PeakReserved  int64      `json:"peak_reserved_bytes"`
	EndReserved   int64      `json:"end_reserved_bytes"`
	Waste         float64    `json:"waste"`
	DriverCalls   int64      `json:"driver_calls"`
	Operations    int        `json:"operations"`
	FreesAdded    int        `json:"frees_added"`
	FreesLeftOut  int        `json:"frees_left_out"`
	Seconds       float64    `json:"seconds"`
	OOM           *oomJSON   `json:"oom"`
	Turns         []turnJSON `json:"turns,omitempty"`
}

type oomJSON struct {
	Event int   `json:"event"`
	Size  int64 `json:"size_bytes"`
}

type recordedJSON struct {
	Peak        int64   `json:"peak_reserved_bytes"`
	End         int64   `json:"end_reserved_bytes"`
	Waste       float64 `json:"waste"`
	DriverCalls int     `json:"driver_calls"`
}

type turnJSON struct {
	PeakReserved int64 `json:"peak_reserved_bytes"`
	DriverCalls  int64 `json:"driver_calls"`
}

func resultJSON(r *replay.Result) replayJSON {
	out := replayJSON{r.Setting, r.PeakRequested, r.PeakReserved, r.EndReserved, r.Waste(), r.DriverCalls, r.Ops,
		r.Lacking.Frees, r.Lacking.Allocations, r.Elapsed.Round(time.Microsecond).Seconds(), nil, nil}
	if len(r.Turns) > 1 {
		for _, t := range r.Turns {
			out.Turns = append(out.Turns, turnJSON(t))
		}
	}
	if r.OOM != nil {
		out.OOM = &oomJSON{r.OOM.Event, r.OOM.Size}
	}
	return out
}

func recordJSON(t *snapshot.Trace, requested int64) *recordedJSON {
	peak := recordedPeak(t, requested)
	if peak == 0 {
		return nil
	}
	return &recordedJSON{peak, t.Recorded.End, float64(peak)/float64(max(requested, 1)) - 1, t.Recorded.SegmentOps}
}

func offJSON(t *snapshot.Trace, r *replay.Result) *int64 {
	if off, ok := beyond(t, r); ok {
		return &off
	}
	return nil
}

func showReplayJSON(w io.Writer, t *snapshot.Trace, results []*replay.Result, unknown []string, _ int) error {
	out := struct {
		SchemaVersion int           `json:"schema_version"`
		Device        int           `json:"device"`
		Events        int           `json:"events"`
		PeakRequested int64         `json:"peak_requested_bytes"`
		Recorded      *recordedJSON `json:"recorded"`
		Off           *int64        `json:"base_beyond_recorded_bytes"`
		Unknown       []string      `json:"settings_not_honoured,omitempty"`
		Policies      []replayJSON  `json:"policies"`
	}{doc.JSONVersion, t.Device, t.Events.Len(), results[0].PeakRequested, recordJSON(t, results[0].PeakRequested),
		offJSON(t, ofRecorded(results)), unknown, nil}
	for _, r := range results {
		out.Policies = append(out.Policies, resultJSON(r))
	}
	return doc.WriteJSON(w, out)
}
