package watch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/follow"
	"github.com/memgauge/memgauge/internal/door/monitor/machine"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/judge/forecast"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// feedOptions are the flags of feed, which the Python classes start: it watches, and they send requests
// (docs/formats/feed.md).
type feedOptions struct {
	pid      int
	devices  []string
	interval units.Duration
	window   units.Duration
	blocks   units.Duration // 0: never request blocks
	history  int
	oom      monitor.OOMOptions
}

func (a *commands) feedCommand() *cobra.Command {
	o := feedOptions{interval: units.Duration(time.Second), window: units.Duration(forecastWindow)}
	c := &cobra.Command{
		Use:    "feed",
		Short:  "Watch for the Python classes (they start it)",
		Long:   "Watches as monitor does and answers requests on standard input; docs/formats/feed.md. It ends with its input.",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.oom.Window = time.Duration(o.window)
			return a.feed(c.Context(), o)
		},
	}
	f := c.Flags()
	f.IntVar(&o.pid, "pid", 0, "the process whose cgroup limits the host's memory")
	f.StringSliceVar(&o.devices, "devices", nil, "devices to watch")
	f.Var(&o.interval, "interval", "between readings")
	f.Var(&o.window, "window", "see so much before growth is extrapolated")
	f.Var(&o.blocks, "blocks", "ask for the allocators' blocks so often")
	f.IntVar(&o.history, "max-snapshots", 10000, "readings kept of each device")
	f.Float64Var(&o.oom.Threshold, "threshold", forecast.DefaultThreshold, "percent of the limit")
	f.Float64Var(&o.oom.Critical, "critical", forecast.DefaultCritical, "percent of the limit")
	return c
}

// feedRequest is a line from the Python side.
type feedRequest struct {
	Report string          `json:"report"` // profile, oom, fragment or monitor: requests that report
	Blocks json.RawMessage `json:"blocks"` // the result of gauges.heap
	Plot   string          `json:"plot"`   // with a report: draw it into this file, .png or .svg
}

// feedMessage is a line to the Python side.
type feedMessage struct {
	Type    string              `json:"type"` // ready, warning, blocks, report, error
	Devices []string            `json:"devices,omitempty"`
	Device  string              `json:"device,omitempty"`
	Text    string              `json:"text,omitempty"`
	Risk    *monitor.RiskReport `json:"risk,omitempty"`
	Report  *monitor.Report     `json:"report,omitempty"`
}

// feeder is one running feed.
type feeder struct {
	o     feedOptions
	src   *follow.Source
	told  *toldBlocks
	watch *monitor.Watch
	out   *json.Encoder
}

// toldBlocks is a source whose blocks come from the Python side.
type toldBlocks struct {
	monitor.Source
	pid  int
	text string
}

func (t *toldBlocks) Blocks(_ context.Context, device string) ([]monitor.Allocator, string, error) {
	if t.text == "" {
		return nil, "the process has not told its blocks yet", nil
	}
	state, why, err := monitor.ReadBlocks(t.text, device)
	if err != nil || why != "" {
		return nil, why, err
	}
	return []monitor.Allocator{{PID: t.pid, Rank: -1, State: state}}, "", nil
}

func (a *commands) feed(ctx context.Context, o feedOptions) error {
	if time.Duration(o.interval) < minInterval {
		return app.Usage(fmt.Errorf("feed: an interval of %s: at least %s", o.interval, minInterval))
	}
	src, err := a.feedSource(ctx, o)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	defer src.Close()
	f := &feeder{o: o, src: src, told: &toldBlocks{Source: src, pid: o.pid}, out: json.NewEncoder(a.Stdout)}
	f.watch, err = monitor.New(ctx, f.told, monitor.Options{Devices: o.devices, Interval: time.Duration(o.interval),
		MaxHistory: o.history, OOM: o.oom, Job: src.Job()})
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	ready := feedMessage{Type: "ready"}
	for _, t := range f.watch.Devices {
		ready.Devices = append(ready.Devices, t.Device.ID)
	}
	if err := f.out.Encode(ready); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return f.run(ctx, requests(ctx, a.Stdin))
}

// feedSource returns the session of an observed process, including its earlier rows, else this machine.
func (a *commands) feedSource(ctx context.Context, o feedOptions) (*follow.Source, error) {
	if a.Named() {
		return a.sessionSource(ctx, true)
	}
	return follow.Machine(machine.Options{PID: o.pid, GPUs: localGPUs()})
}

const maxRequest = 8 << 20 // blocks of a heap and of some 100,000 segments

// requests reads lines; the channel closes with the input. A read of a pipe can't be cancelled, so its goroutine may
// last until the process ends.
func requests(ctx context.Context, r io.Reader) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(r)
		in.Buffer(make([]byte, 0, 1<<16), maxRequest)
		for in.Scan() {
			select {
			case lines <- append([]byte(nil), in.Bytes()...):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// run watches until its input closes, or until writing to the parent fails.
func (f *feeder) run(ctx context.Context, lines <-chan []byte) error {
	ticker := time.NewTicker(time.Duration(f.o.interval))
	defer ticker.Stop()
	asked := time.Time{}
	err := f.tick(ctx)
	for err == nil {
		if d := time.Duration(f.o.blocks); d > 0 && time.Since(asked) >= d {
			asked = time.Now()
			if err = f.out.Encode(feedMessage{Type: "blocks"}); err != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			err = f.answer(ctx, line)
		case <-ticker.C:
			err = f.tick(ctx)
		}
	}
	if errors.Is(err, api.ErrCanceled) || f.src.Ended() {
		return nil
	}
	return fmt.Errorf("feed: %w", err)
}

func (f *feeder) tick(ctx context.Context) error {
	warnings, err := f.watch.Tick(ctx)
	if err != nil {
		return err
	}
	for i := range warnings {
		w := &warnings[i]
		report := f.watch.RiskOf(w.Device.ID)
		if err := f.out.Encode(feedMessage{Type: "warning", Device: w.Device.ID, Text: w.Text(),
			Risk: report}); err != nil {
			return err
		}
	}
	return nil
}

func (f *feeder) answer(ctx context.Context, line []byte) error {
	var r feedRequest
	if err := json.Unmarshal(line, &r); err != nil {
		return f.out.Encode(feedMessage{Type: "error", Text: "a request that is no JSON: " + err.Error()})
	}
	if len(r.Blocks) > 0 {
		f.told.text = string(r.Blocks)
		if err := f.watch.LookAtBlocks(ctx, time.Now()); err != nil {
			return f.out.Encode(feedMessage{Type: "error", Text: err.Error()})
		}
	}
	if r.Report == "" {
		return nil
	}
	if err := f.tick(ctx); err != nil { // so that there is at least one reading, and the newest
		return err
	}
	if err := f.plot(r.Plot); err != nil {
		return f.out.Encode(feedMessage{Type: "error", Text: err.Error()})
	}
	return f.out.Encode(feedMessage{Type: "report",
		Report: f.watch.Report(monitor.What{Tool: r.Report, Session: f.src.Name(), Now: time.Now(),
			Snapshots: r.Report == "profile"})})
}

// plot draws what was read so far.
func (f *feeder) plot(path string) error {
	if path == "" {
		return nil
	}
	o := watchOptions{tool: "profile", plot: path}
	if plotFormat(path) == "" {
		return fmt.Errorf("plot %s: no kind of picture has that ending", path)
	}
	to, err := sink.Create(path)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	if err := o.draw(f.watch, to); err != nil {
		to.Discard()
		return fmt.Errorf("plot: %w", err)
	}
	return to.Commit()
}
