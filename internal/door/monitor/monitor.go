// Package monitor owns watching devices over time. The host and each GPU are read at an interval, kept within a bound,
// judged against the limit that binds, and put into the reports of profile, oom, fragment and monitor. The package
// reads nothing itself: a Source does, from this machine or from a session, and the reports don't depend on which. It
// prints nothing.
package monitor

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/fragment"
)

// Host is the device for the machine's own memory, or for the share of it that a cgroup leaves to the job.
const Host = "host"

// Device is a memory with a limit of its own.
type Device struct {
	ID   string // "host", or a GPU's number
	Name string // such as NVIDIA A100-SXM4-80GB; for the host its limit: cgroup /job, or host
}

// Label is the name of a device for people.
func (d Device) Label() string {
	if _, err := strconv.Atoi(d.ID); err == nil {
		return "GPU " + d.ID
	}
	return d.ID
}

// Reading is a device at one moment, or over one step where Peak > Used. Sizes are bytes.
type Reading struct {
	Device string
	Time   time.Time
	Step   float64 // steps done by the job; 0 if unknown
	// Used is memory that can't be given back at once: it excludes caches that the kernel or an allocator would drop
	// under pressure.
	Used int64
	Peak int64 // the highest since the previous reading, where the source knows; else the same as Used
	// Reserved is all that is charged, including caches.
	Reserved int64
	Total    int64 // the limit that binds
	// Kind says what the limit is: device, cgroup, host.
	Kind string
	// Mapped is how many bytes of files the job has mapped and touched: it grows while libraries are loaded. 0 if
	// unknown.
	Mapped int64
	Err    string // why there are no figures; they are all 0 then
}

// Free is what is left until the limit.
func (r *Reading) Free() int64 { return max(0, r.Total-r.Used) }

// Percent is the used share of the limit.
func (r *Reading) Percent() float64 {
	if r.Total <= 0 {
		return 0
	}
	return 100 * float64(r.Used) / float64(r.Total)
}

// Source reads devices.
type Source interface {
	// Devices lists the devices that can be read, the host first.
	Devices(ctx context.Context) ([]Device, error)
	// Read appends what is new: one reading of each device, or all readings since the last call if they were recorded
	// meanwhile.
	Read(ctx context.Context, into []Reading) ([]Reading, error)
	// Blocks returns the allocators' own view of a device's memory, one for each process; if there is none, why says
	// what is missing.
	Blocks(ctx context.Context, device string) (states []Allocator, why string, err error)
	// Ended reports that nothing more will come.
	Ended() bool
}

// Allocator is the state of the allocator in one process.
type Allocator struct {
	PID   int
	Rank  int // -1 unknown
	State fragment.State
	// Env are the allocator settings in the process's environment.
	Env map[string]string
}

// Event is something that happened while we watched.
type Event struct {
	Time time.Time
	Text string
	Bad  bool
}

// Options of a watch.
type Options struct {
	Devices    []string // ids; empty for all
	Interval   time.Duration
	MaxHistory int // readings kept of each device
	OOM        OOMOptions
	Job        Job
	Fragment   bool // read blocks too
	// Every is the interval at which blocks are read.
	BlocksEvery time.Duration
}

// Job is what is known about the job whose memory is watched.
type Job struct {
	Known     bool        // there is a job; on a machine as a whole anything may start
	FromStart bool        // the readings begin with the start of the job
	Over      bool        // it has ended: advice about what to do now is pointless
	Killed    bool        // the kernel killed it because host memory ran out
	Torch     func() bool // PyTorch has been imported; nil: unknown
}

// Watch keeps the readings of some devices. It belongs to one goroutine.
type Watch struct {
	source  Source
	o       Options
	Started time.Time
	Last    time.Time
	Devices []*Track
	Events  []Event
	Leaks   []string      // what was judged to leak, one line for each
	Peaks   []detect.Peak // that belong to one phase of a training
	Cost    time.Duration // spent in reading
	Ticks   int
	buffer  []Reading
}

// Track is one device's history and judgement.
type Track struct {
	Device  Device
	History History
	Risk    Risk
	Blocks  BlockHistory
	// Lost says since when and why there are no figures.
	Lost string

	of Job
}

// Foreseen reports that memory is expected to run out; for a job that has ended it is false.
func (t *Track) Foreseen() bool { return t.Risk.Predicted && !t.of.Over }

// maxEvents are kept; warnings are still printed.
const maxEvents = 1000

// New prepares to watch the devices that the options name. If a device does not exist, the error lists those that do.
func New(ctx context.Context, source Source, o Options) (*Watch, error) {
	there, err := source.Devices(ctx)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	chosen, err := choose(there, o.Devices)
	if err != nil {
		return nil, err
	}
	if o.MaxHistory <= 0 {
		o.MaxHistory = defaultHistory
	}
	w := &Watch{source: source, o: o}
	for _, d := range chosen {
		w.Devices = append(w.Devices, &Track{Device: d, History: History{max: o.MaxHistory},
			Blocks: BlockHistory{max: o.MaxHistory}, of: o.Job})
	}
	return w, nil
}

// Tick reads once, judges, and returns the warnings that are new.
func (w *Watch) Tick(ctx context.Context) ([]Warning, error) {
	began := time.Now()
	var err error
	w.buffer, err = w.source.Read(ctx, w.buffer[:0])
	if err != nil {
		return nil, err
	}
	for i := range w.buffer {
		w.take(&w.buffer[i])
	}
	w.Ticks++
	w.Cost += time.Since(began)
	var warnings []Warning
	for _, t := range w.Devices {
		if t.History.Len() == 0 {
			continue
		}
		if warning, is := t.assess(w.o.OOM); is {
			warnings = append(warnings, warning)
			w.note(warning.Time, t.Device.Label()+": OOM risk "+warning.Risk.Level.String(), true)
		}
	}
	return warnings, nil
}

func (w *Watch) take(r *Reading) {
	if w.Started.IsZero() {
		w.Started = r.Time
	}
	if r.Time.After(w.Last) {
		w.Last = r.Time
	}
	for _, t := range w.Devices {
		if t.Device.ID != r.Device {
			continue
		}
		if r.Err != "" {
			if t.Lost == "" {
				w.note(r.Time, t.Device.Label()+" lost: "+r.Err, true)
			}
			t.Lost = r.Err
			continue
		}
		t.Lost = ""
		t.History.add(*r)
	}
}

// LookAtBlocks reads the allocators' blocks once.
func (w *Watch) LookAtBlocks(ctx context.Context, now time.Time) error {
	for _, t := range w.Devices {
		states, why, err := w.source.Blocks(ctx, t.Device.ID)
		if err != nil {
			return fmt.Errorf("ask the allocators of %s: %w", t.Device.Label(), err)
		}
		t.Blocks.add(now, states, why)
	}
	return nil
}

// Over records that the job has ended, and whether the kernel killed it because host memory ran out.
func (w *Watch) Over(killed bool) {
	for _, t := range w.Devices {
		t.of.Over, t.of.Killed = true, killed
		if t.History.Len() > 0 {
			t.assess(w.o.OOM)
		}
	}
}

// Note adds an event.
func (w *Watch) Note(e Event) { w.note(e.Time, e.Text, e.Bad) }

func (w *Watch) note(at time.Time, text string, bad bool) {
	if len(w.Events) < maxEvents {
		w.Events = append(w.Events, Event{at, text, bad})
	}
}

// Seconds is how long the devices were watched.
func (w *Watch) Seconds() float64 {
	if w.Started.IsZero() {
		return 0
	}
	return w.Last.Sub(w.Started).Seconds()
}

// Readings is the number of readings of the device that was read most often.
func (w *Watch) Readings() int {
	n := 0
	for _, t := range w.Devices {
		n = max(n, t.History.count)
	}
	return n
}

// Worst returns the highest risk of all devices.
func (w *Watch) Worst() Level {
	worst := Low
	for _, t := range w.Devices {
		worst = max(worst, t.Risk.Worst)
	}
	return worst
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e3) / 1e3 }
