// Package analyse asks a session's database for the series and censuses that verdicts go by, judges them, and makes
// rows of the verdict. It knows the tables; what the numbers mean is detect's.
package analyse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/forecast"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Options say what to judge.
type Options struct {
	Until   int64    // only what was known when this step had ended; 0: everything
	Devices []string // only these (cpu, cuda:0 …); none: all
	Over    bool     // the job has ended, and the database does not say so yet
	Sources *Sources // what was read of the program before; nil: nothing
}

// Load reads what a verdict goes by.
func Load(ctx context.Context, from store.Querier, o Options) (detect.Input, error) {
	l := &loader{ctx: ctx, from: from, o: o, processes: map[int32]*detect.Process{}, clocks: map[int32]*clock{},
		seen: map[int32]float64{}, until: math.Inf(1), counted: map[int32]kind{},
		left: map[int32]float64{}, counts: map[string]int{}}
	steps := []func() error{l.count, l.hostRows, l.steps, l.deviceSeries, l.identities, l.happened, l.memory,
		l.ends, l.limits, l.deviceLimits, l.outside, l.tensors, l.objects, l.bounds, l.native}
	for _, step := range steps {
		if err := step(); err != nil {
			return detect.Input{}, fmt.Errorf("judge: %w", err)
		}
	}
	return l.input(), nil
}

// clock turns times into steps of a training process.
type clock struct {
	us, steps []float64
	next      int // that the last time came before
}

// at gives the steps that had ended at a time, with the part of the one that was going on.
func (c *clock) at(us float64) float64 {
	c.next = seek(c.us, c.next, us, func(us *float64) float64 { return *us })
	i := c.next
	switch {
	case len(c.us) == 0:
		return math.NaN()
	case i == len(c.us):
		return c.steps[i-1]
	case c.us[i] == us || i == 0:
		return c.steps[i]
	}
	share := (us - c.us[i-1]) / (c.us[i] - c.us[i-1])
	return c.steps[i-1] + share*(c.steps[i]-c.steps[i-1])
}

func (c *clock) first() float64 { return c.us[0] }
func (c *clock) last() float64  { return c.us[len(c.us)-1] }

type loader struct {
	ctx       context.Context
	from      store.Querier
	o         Options
	counts    map[string]int // rows of tables in schema store, by name
	processes map[int32]*detect.Process
	clocks    map[int32]*clock
	seen      map[int32]float64 // µs since the epoch of a process's last sample
	counted   map[int32]kind    // of each process's steps those that count
	trainer   int32             // that made most steps
	most      float64           // steps; 0: there are none, and all goes by time
	left      map[int32]float64 // when workers that have ended were last seen, in µs since the epoch
	events    []event           // in order
	samples   sums
	hosts     hosts
	until     float64 // µs since the epoch; +Inf without a bound
	from0     float64 // µs since the epoch of the first sample
	host      detect.Limit
	over      bool // nothing more will come
	warnings  []string
}

// end is the time, in µs since the epoch, that verdicts are as of: the last step's end, or the last sample of any
// process. What was read later was read after the job gave its memory back.
func (l *loader) end() (last float64) {
	for _, c := range l.clocks {
		if len(c.us) > 0 {
			last = max(last, c.last())
		}
	}
	if last > 0 {
		return last
	}
	for _, us := range l.seen {
		last = max(last, us)
	}
	return last
}

// all reads a statement's rows. A table that an older database lacks has none.
func (l *loader) all(sql string, row func(v []any)) error {
	err := store.Each(l.ctx, l.from, sql, row)
	if errors.Is(err, store.ErrNoTable) {
		return nil
	}
	return err
}

// floats is all for a statement of numbers.
func (l *loader) floats(sql string, row func(v []float64)) error {
	err := store.Floats(l.ctx, l.from, sql, row)
	if errors.Is(err, store.ErrNoTable) {
		return nil
	}
	return err
}

// one is a statement's only number; 0 where there is no row.
func (l *loader) one(sql string, args ...any) (n float64, err error) {
	err = l.floats(fmt.Sprintf(sql, args...), func(v []float64) { n = v[0] })
	return n, err
}

// trains says whether a process has steps of a training: then forwards without an optimizer don't count.
func (l *loader) trains(pid int32) bool {
	k, known := l.counted[pid]
	return known && !k.inference
}

// process is made when it is first met.
func (l *loader) process(pid int32) *detect.Process {
	p := l.processes[pid]
	if p == nil {
		p = &detect.Process{PID: int(pid), Rank: -1}
		l.processes[pid] = p
	}
	return p
}

// bound is the condition for Options.Until.
func (l *loader) bound() string {
	if l.o.Until > 0 {
		return fmt.Sprintf(" AND step <= %d", l.o.Until)
	}
	return ""
}

func (l *loader) upTo() string {
	if l.o.Until > 0 {
		return fmt.Sprintf(" <= %d", l.o.Until)
	}
	return " >= 0"
}

// training keeps rows of training where there are any: forwards before the first optimizer step count by themselves.
const training = `(NOT inference OR pid NOT IN (SELECT pid FROM python.steps WHERE NOT inference))`

// late is the seconds a step takes, over the last quarter.
func (c *clock) late() float64 {
	n := len(c.us)
	if n < 2 {
		return 0
	}
	i := n * 3 / 4
	if i == n-1 {
		i--
	}
	if c.steps[n-1] <= c.steps[i] {
		return 0
	}
	return (c.us[n-1] - c.us[i]) / 1e6 / (c.steps[n-1] - c.steps[i])
}

// paces says how long steps took of late, and between what bounds: over each quarter of the younger half of the run.
func (c *clock) paces(p *detect.Process) {
	p.Pace = c.late()
	n := len(c.us)
	if n > 0 {
		p.Last = c.steps[n-1]
	}
	const parts = 4
	if p.Pace == 0 || n < 8*parts {
		return
	}
	for i := range parts {
		from, to := n/2+i*(n-1-n/2)/parts, n/2+(i+1)*(n-1-n/2)/parts
		if steps := c.steps[to] - c.steps[from]; steps > 0 {
			pace := (c.us[to] - c.us[from]) / 1e6 / steps
			if p.Fastest == 0 || pace < p.Fastest {
				p.Fastest = pace
			}
			p.Slowest = max(p.Slowest, pace)
		}
	}
	p.Fastest, p.Slowest = min(p.Fastest, p.Pace), max(p.Slowest, p.Pace)
}

// identities tells workers from trainers and the ended from the living. Where nobody makes steps every process of the
// job is judged but those that Python starts for itself.
func (l *loader) identities() error {
	const sql = `SELECT pid, any_value(role), any_value(command), max(epoch_us(last_seen))::DOUBLE, bool_or(ended)
 FROM process.tree GROUP BY pid ORDER BY pid`
	return l.all(sql, func(v []any) {
		pid, role := integer[int32](v[0]), fmt.Sprint(v[1])
		if l.clocks[pid] == nil && role != "worker" && role != "trainer" && (l.most > 0 || role == "helper") {
			return // launchers and helpers
		}
		p := l.process(pid)
		if p.Worker = l.clocks[pid] == nil && l.most > 0; p.Worker {
			p.Work = l.work()
		}
		p.ByTime = l.most == 0
		p.Prepares = p.ByTime && role == "trainer"
		p.Command = fmt.Sprint(v[2])
		p.Gone = l.o.Until == 0 && v[4] == true
		if p.Worker && v[4] == true {
			l.left[pid] = number(v[3])
		}
	})
}

// stepsOf gives the steps at the times of samples: by the process's own clock, a worker's by the training's. What lies
// outside of the training (imports, tearing down) has none. Where nobody makes steps, seconds since the first sample
// count instead.
func (l *loader) stepsOf(pid int32, us []float64, p *detect.Process) ([]float64, bool) {
	xs := make([]float64, len(us))
	if p.ByTime {
		for i, t := range us {
			xs[i] = (t - l.from0) / 1e6
		}
		p.Pace = 1
		return xs, true
	}
	c := l.clocks[pid]
	if c == nil {
		c = l.clocks[l.trainer]
	}
	if c == nil || len(c.us) < 2 {
		return nil, false
	}
	for i, t := range us {
		xs[i] = math.NaN()
		if t >= c.first() && t <= c.last() {
			xs[i] = c.at(t)
		}
	}
	c.paces(p)
	return xs, true
}

// censusStep is the step at a census; a worker's, which makes none, goes by the training's. Without steps it is the
// second.
func (l *loader) censusStep(step, us any) int64 {
	if step != nil && l.most > 0 {
		return int64(number(step))
	}
	if c := l.clocks[l.trainer]; c != nil && len(c.us) > 0 {
		if number(us) < c.first() {
			return model.Null // before the training
		}
		return int64(c.at(number(us)))
	}
	if l.most == 0 && l.from0 > 0 {
		return int64((number(us) - l.from0) / 1e6)
	}
	return model.Null
}

func (l *loader) tensors() error {
	if l.counts["tensors"] == 0 {
		return nil
	}
	return l.all(`SELECT pid, census_id, step, device, role, sum(count)::BIGINT, sum(bytes)::BIGINT, any_value(site), holder, dtype,
 epoch_us(ts)::DOUBLE, sum(fresh)::BIGINT, any_value(shape) FROM python.tensors
 WHERE coalesce(step, 0)`+l.upTo()+
		` GROUP BY ALL ORDER BY census_id`, func(v []any) {
		p := l.process(integer[int32](v[0]))
		p.Tensors = append(p.Tensors, model.TensorGroup{PID: int32(p.PID), Census: integer[int64](v[1]),
			Step: l.censusStep(v[2], v[10]), Device: word(v[3]), Role: word(v[4]), Count: integer[int64](v[5]),
			Bytes: integer[int64](v[6]), Site: word(v[7]), Holder: word(v[8]), Dtype: word(v[9]),
			Fresh: orNull(v[11]), Shape: word(v[12])})
	})
}

// work is what the steps of the process that made most are.
func (l *loader) work() string {
	if p := l.processes[l.trainer]; p != nil {
		return p.Work
	}
	return ""
}

// input puts the processes in order.
func (l *loader) input() detect.Input {
	in := detect.Input{Host: l.host, Steps: l.most, Work: l.work(), Over: l.over, Warnings: l.warnings}
	if l.most == 0 && l.from0 > 0 {
		in.Seconds = (l.end() - l.from0) / 1e6
	}
	in.Job = forecast.Job{Window: forecast.DefaultWindow, Known: true, FromStart: true}
	for _, p := range l.processes {
		in.Job.Torch = in.Job.Torch || p.Prepares
		p.Devices = slices.DeleteFunc(p.Devices, func(d detect.DeviceSeries) bool { return !l.wanted(d.Name) })
		if !l.wanted("cpu") {
			p.Heap, p.Anon, p.Private, p.Shared, p.Mapped, p.Unmapped = detect.Series{}, detect.Series{},
				detect.Series{}, detect.Series{}, detect.Series{}, detect.Series{}
		}
		in.Processes = append(in.Processes, *p)
	}
	order.By(in.Processes, func(a, b detect.Process) int { return a.PID - b.PID })
	return in
}

// wanted says whether a device is to be judged. "0" is cuda:0, "host" is cpu.
func (l *loader) wanted(device string) bool {
	if len(l.o.Devices) == 0 {
		return true
	}
	return slices.ContainsFunc(l.o.Devices, func(d string) bool {
		return d == device || d == "host" && device == "cpu" || "cuda:"+strings.TrimPrefix(d, "cuda:") == device
	})
}

func integer[T int32 | int64](v any) T { return T(number(v)) }

// number is an integer or a float of the database; 0 for NULL.
func number(v any) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	case float64:
		return n
	case float32:
		return float64(n)
	}
	return 0
}

func orNull(v any) int64 {
	if v == nil {
		return model.Null
	}
	return int64(number(v))
}

func word(v any) string {
	s, _ := v.(string)
	return s
}
