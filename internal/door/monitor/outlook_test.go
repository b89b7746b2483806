package monitor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// at is a Source that reads a memory of 16 GiB at an interval; used is the share of it at a second.
type at struct {
	interval time.Duration
	used     func(s float64) float64
	steps    func(s float64) float64
	mapped   func(s float64) float64 // GiB of libraries
	i        int
}

func (a *at) Devices(context.Context) ([]Device, error) { return []Device{{Host, ""}}, nil }
func (a *at) Ended() bool                               { return false }
func (a *at) Blocks(context.Context, string) ([]Allocator, string, error) {
	return nil, "no blocks here", nil
}

func (a *at) Read(_ context.Context, into []Reading) ([]Reading, error) {
	d := time.Duration(a.i) * a.interval
	a.i++
	u := int64(a.used(d.Seconds()) * 16 * gib)
	r := Reading{Device: Host, Time: start.Add(d), Used: u, Peak: u, Reserved: u, Total: 16 * gib, Kind: "cgroup"}
	if a.mapped != nil {
		r.Mapped = int64(a.mapped(d.Seconds()) * gib)
	}
	if a.steps != nil {
		r.Step = a.steps(d.Seconds())
	}
	return append(into, r), nil
}

// over runs for so many seconds.
func (a *at) over(t *testing.T, seconds float64, o Options) []Warning {
	t.Helper()
	w, err := New(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []Warning
	for range int(seconds/a.interval.Seconds()) + 1 {
		warnings, err := w.Tick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, warnings...)
	}
	return all
}

func window(s int) OOMOptions { return OOMOptions{85, 95, time.Duration(s) * time.Second} }

// ramp rises from one share to another between two seconds.
func ramp(from, to, begin, end float64) func(float64) float64 {
	return func(s float64) float64 {
		return from + (to-from)*min(1, max(0, (s-begin)/(end-begin)))
	}
}

func TestNoAlarmWhileSomethingIsLoaded(t *testing.T) {
	saw := func(s float64) float64 { return 0.3 + 0.5*(s-240*float64(int(s/240)))/240 }
	for name, c := range map[string]struct {
		source  at
		o       Options
		seconds float64
		known   float64 // s: warnings before it are not counted
	}{
		"a model is loaded, PyTorch is there": {at{interval: 100 * time.Millisecond, used: ramp(0.01, 0.8, 0, 19)},
			Options{Job: Job{Known: true, FromStart: true, Torch: yes}, OOM: window(10)}, 60, 0},
		"libraries are loaded": {at{interval: 100 * time.Millisecond, used: ramp(0.01, 0.8, 0, 19),
			mapped: ramp(0, 1, 0, 19)},
			Options{Job: Job{Known: true, FromStart: true}, OOM: window(10)}, 60, 0},
		"the start, a training": {at{interval: 100 * time.Millisecond, used: ramp(0.01, 0.8, 0, 19),
			mapped: ramp(0, 1, 0, 13), steps: func(s float64) float64 { return max(0, s-19) * 5 }},
			Options{Job: Job{Known: true, FromStart: true, Torch: yes}, OOM: window(10)}, 60, 0},
		"after an hour of training": {at{interval: time.Second, used: ramp(0.2, 0.8, 3600, 3620),
			steps: func(s float64) float64 { return s }},
			Options{Job: Job{Known: true, FromStart: true, Torch: yes}, OOM: window(30)}, 3700, 0},
		"a second model after an hour": {at{interval: time.Second, used: ramp(0.2, 0.8, 3600, 3625)},
			Options{OOM: window(30)}, 3700, 0},
		// The first rise of all can't be distinguished from a leak.
		"a sawtooth longer than the window": {at{interval: time.Second, used: saw}, Options{OOM: window(10)}, 3000,
			480},
	} {
		t.Run(name, func(t *testing.T) {
			for _, w := range c.source.over(t, c.seconds, c.o) {
				if s := w.Time.Sub(start).Seconds(); s > c.known {
					t.Fatalf("after %.0f s: %s", s, w.Text())
				}
			}
		})
	}
}

func TestGrowthToTheLimitIsToldInTime(t *testing.T) {
	for name, c := range map[string]struct {
		source at
		o      Options
		died   float64 // s
		left   float64 // s that must be left at the first warning, high or critical
	}{
		"from the start on, in seconds": {at{interval: 100 * time.Millisecond, used: ramp(0.2, 1, 0, 12)},
			Options{Job: Job{Known: true, FromStart: true}, OOM: window(30)}, 12, 2},
		"from the start on, in minutes": {at{interval: time.Second, used: ramp(0.1, 1, 0, 240)},
			Options{Job: Job{Known: true, FromStart: true}, OOM: window(30)}, 240, 50},
		"in a training, from its start": {at{interval: time.Second, used: ramp(0.1, 1, 5, 240),
			steps: func(s float64) float64 { return 2 * s }}, Options{Job: Job{Known: true, FromStart: true},
			OOM: window(30)}, 240, 50},
		"in five minutes, after hours": {at{interval: 5 * time.Second, used: ramp(0.2, 1, 10000, 10300)},
			Options{OOM: window(30)}, 10300, 50},
		"in half a minute, after a while": {at{interval: 200 * time.Millisecond, used: ramp(0.2, 1, 600, 630)},
			Options{OOM: window(30)}, 630, 4},
	} {
		t.Run(name, func(t *testing.T) {
			for _, w := range c.source.over(t, c.died, c.o) {
				if w.Risk.Level < High {
					continue
				}
				if left := c.died - w.Time.Sub(start).Seconds(); left < c.left {
					t.Errorf("warned %.1f s before the end, want %.0f", left, c.left)
				}
				return
			}
			t.Error("not warned")
		})
	}
}

// Memory that grows quickly towards its limit is read more often than the user requested.
func TestRushes(t *testing.T) {
	for name, c := range map[string]struct {
		used func(float64) float64
		want bool
	}{
		"full in 12 s":     {ramp(0.2, 1, 0, 12), true},
		"full in a minute": {ramp(0.2, 1, 0, 60), false},
		"flat":             {func(float64) float64 { return 0.9 }, false},
		"falling":          {ramp(0.9, 0.1, 0, 12), false},
	} {
		a := &at{interval: 2 * time.Second, used: c.used}
		w, err := New(t.Context(), a, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := w.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.Rushes(2 * time.Second); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The cost of judging at each reading once the history is full: while memory grows quickly it is done ten times a
// second.
func BenchmarkJudge(b *testing.B) {
	a := &at{interval: time.Second, used: ramp(0.2, 0.8, 0, 9000)}
	w, err := New(b.Context(), a, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for range defaultHistory {
		if _, err := w.Tick(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		w.Devices[0].assess(window(30))
	}
}

func yes() bool { return true }

// recordedStart is the start of a training, as read from outside.
type recordedStart struct {
	name string
	rows [][4]float64 // s, MiB in use, MiB mapped, steps
	peak float64
}

func recordedStarts(t *testing.T) (list []*recordedStart) {
	t.Helper()
	text, err := os.ReadFile("testdata/starts.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var row [4]float64
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "training "); ok {
			list = append(list, &recordedStart{name: name})
		} else if n, _ := fmt.Sscan(line, &row[0], &row[1], &row[2], &row[3]); n == 4 {
			r := list[len(list)-1]
			r.rows, r.peak = append(r.rows, row), max(r.peak, row[1])
		}
	}
	return list
}

// played is a Source that plays a recorded start, slower by a factor.
type played struct {
	*recordedStart
	slower, limit float64 // limit in MiB
	i             int
}

func (p *played) Devices(context.Context) ([]Device, error) { return []Device{{Host, ""}}, nil }
func (p *played) Ended() bool                               { return p.i >= len(p.rows) }
func (p *played) Blocks(context.Context, string) ([]Allocator, string, error) {
	return nil, "no blocks here", nil
}

func (p *played) Read(_ context.Context, into []Reading) ([]Reading, error) {
	row := p.rows[p.i]
	p.i++
	used := int64(row[1] * (1 << 20))
	return append(into, Reading{Device: Host, Time: start.Add(time.Duration(row[0] * p.slower * 1e9)), Step: row[3],
		Used: used, Peak: used, Reserved: used, Total: int64(p.limit * (1 << 20)), Kind: "cgroup",
		Mapped: int64(row[2] * (1 << 20))}), nil
}

// Real starts of healthy trainings, under limits that they fill to 60 to 84 %, at their own pace and on a machine that
// is five times slower: importing PyTorch grows linearly for seconds, and must cause no warning.
func TestNoAlarmAtRecordedStarts(t *testing.T) {
	asked, alarms := 0, 0
	for _, s := range recordedStarts(t) {
		for _, slower := range []float64{1, 5} {
			for _, share := range []float64{0.6, 0.72, 0.84} {
				p := &played{recordedStart: s, slower: slower, limit: s.peak / share}
				torch := func() bool { return p.rows[p.i-1][2] > 50 } // as soon as its libraries are mapped
				w, err := New(t.Context(), p, Options{OOM: window(30),
					Job: Job{Known: true, FromStart: true, Torch: torch}})
				if err != nil {
					t.Fatal(err)
				}
				asked++
				for !p.Ended() {
					warnings, err := w.Tick(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if len(warnings) > 0 {
						alarms++
						t.Errorf("%s, %g times slower, at most %.0f %%, after %.1f s: %s", s.name, slower, 100*share,
							w.Seconds(), warnings[0].Text())
						break
					}
				}
			}
		}
	}
	t.Logf("%d runs, %d alarms", asked, alarms)
}
