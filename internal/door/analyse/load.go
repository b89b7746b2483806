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

// buckets is how many floors of each series are read: the judge's shortest window, a seventh, still has 64 stretches of
// eight.
const buckets = 4096

// Load reads what a verdict goes by.
func Load(ctx context.Context, from store.Querier, o Options) (detect.Input, error) {
	l := &loader{ctx: ctx, from: from, o: o, processes: map[int32]*detect.Process{}, clocks: map[int32]*clock{},
		seen: map[int32]float64{}, until: math.Inf(1)}
	steps := []func() error{l.span, l.hostSeries, l.deviceSeries, l.identities, l.memory, l.ends, l.boosts, l.limits,
		l.deviceLimits, l.outside, l.tensors, l.objects, l.bounds, l.unmapped, l.native}
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
}

// at gives the steps that had ended at a time, with the part of the one that was going on.
func (c *clock) at(us float64) float64 {
	i, found := slices.BinarySearch(c.us, us)
	switch {
	case len(c.us) == 0:
		return math.NaN()
	case found || i == 0:
		return c.steps[i]
	case i == len(c.us):
		return c.steps[i-1]
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
	processes map[int32]*detect.Process
	clocks    map[int32]*clock
	seen      map[int32]float64 // µs since the epoch of a process's last sample
	trainer   int32             // that made most steps
	most      float64           // steps; 0: there are none, and all goes by time
	until     float64           // µs since the epoch; +Inf without a bound
	from0     float64           // µs since the epoch of the first sample
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

// span finds who trains, and how long.
func (l *loader) span() error {
	// A process that trained is judged by its steps; one that only ran forwards, by those.
	return l.all(`SELECT pid, max(step), bool_and(inference) FROM python.steps WHERE step > 0`+l.bound()+
		` GROUP BY pid ORDER BY pid`, func(v []any) {
		pid := integer[int32](v[0])
		l.process(pid)
		if n := number(v[1]); n > l.most {
			l.most, l.trainer = n, pid
		}
	})
}

// training keeps rows of training where there are any: forwards before the first optimizer step count by themselves.
const training = `(NOT inference OR pid NOT IN (SELECT pid FROM python.steps WHERE NOT inference))`

// hostSeries reads floors of what the agent took at step ends: rows tell of the host whatever device they show besides.
func (l *loader) hostSeries() error {
	sql := fmt.Sprintf(`WITH s AS (SELECT * FROM python.steps WHERE %[1]s%[2]s),
 w AS (SELECT pid, min(step) AS low, greatest(1, (max(step) - min(step)) / %[3]d.0) AS width FROM s GROUP BY pid)
 SELECT pid, max(step), max(epoch_us(ts))::DOUBLE,
 arg_min(step, heap_in_use), min(heap_in_use)::DOUBLE, arg_min(step, anon), min(anon)::DOUBLE,
 arg_min(step, anon - heap_held), min(anon - heap_held)::DOUBLE, arg_min(step, py_blocks), min(py_blocks)::DOUBLE,
 sum(gc_full)::DOUBLE, max(rank)
 FROM s JOIN w USING (pid) GROUP BY pid, floor((step - low) / width) ORDER BY pid, 2`, training, l.bound(), buckets)
	err := l.all(sql, func(v []any) {
		pid := integer[int32](v[0])
		p := l.process(pid)
		c := l.clocks[pid]
		if c == nil {
			c = &clock{}
			l.clocks[pid] = c
		}
		if n := len(c.us); n == 0 || number(v[2]) > c.us[n-1] { // a clock that was set back tells no order
			c.us, c.steps = append(c.us, number(v[2])), append(c.steps, number(v[1]))
		}
		add(&p.Heap, v[3], v[4])
		add(&p.Anon, v[5], v[6])
		add(&p.Private, v[7], v[8])
		add(&p.Blocks, v[9], v[10])
		p.Full += orZero(v[11])
		if v[12] != nil {
			p.Rank = int(number(v[12]))
		}
	})
	for pid, c := range l.clocks {
		c.paces(l.processes[pid])
	}
	if c := l.clocks[l.trainer]; c != nil && l.o.Until > 0 && len(c.us) > 0 {
		l.until = c.last()
	}
	return err
}

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
	gap, err := l.sampling()
	if err != nil {
		return err
	}
	const sql = `SELECT pid, any_value(role), any_value(command), max(epoch_us(last_seen))::DOUBLE, bool_or(ended)
 FROM process.tree GROUP BY pid ORDER BY pid`
	return l.all(sql, func(v []any) {
		pid, role := integer[int32](v[0]), fmt.Sprint(v[1])
		if l.clocks[pid] == nil && role != "worker" && role != "trainer" && (l.most > 0 || role == "helper") {
			return // launchers and helpers
		}
		p := l.process(pid)
		p.Worker = l.clocks[pid] == nil && l.most > 0
		p.ByTime = l.most == 0
		p.Prepares = p.ByTime && role == "trainer"
		p.Command = fmt.Sprint(v[2])
		p.Gone = l.o.Until == 0 && v[4] == true
		if c := l.clocks[l.trainer]; c != nil {
			// gone three samples and two steps before the end
			p.Ended = p.Worker && v[4] == true && number(v[3]) < c.last()-3*gap-2*c.late()*1e6
		}
	})
}

// sampling is the µs between two samples of the job, the usual ones; 1 s where there are too few to tell.
func (l *loader) sampling() (gap float64, err error) {
	gap = 1e6
	const sql = `SELECT median(us - before)::DOUBLE FROM
 (SELECT epoch_us(ts) AS us, lag(epoch_us(ts)) OVER (ORDER BY ts) AS before
 FROM (SELECT DISTINCT ts FROM process.memory))`
	err = l.all(sql, func(v []any) {
		if v[0] != nil {
			gap = min(gap, number(v[0]))
		}
	})
	return gap, err
}

// memory reads what was sampled from outside, on the steps of the training or, where there are none, by time. After its
// "exit" a process is torn down: what Python gives back then says nothing about what it kept.
func (l *loader) memory() error {
	type series struct{ us, anon, shared, file, space, dirty []float64 }
	by := map[int32]*series{}
	sql := `SELECT pid, epoch_us(ts)::DOUBLE, anon::DOUBLE, shmem::DOUBLE, file::DOUBLE, vm_size::DOUBLE,
 private_dirty::DOUBLE FROM process.memory
 LEFT JOIN (SELECT pid, max(ts) AS left_at FROM memgauge.events WHERE name = 'exit' GROUP BY pid) USING (pid)
 WHERE left_at IS NULL OR ts <= left_at ORDER BY pid, ts`
	err := l.all(sql, func(v []any) {
		pid := integer[int32](v[0])
		if l.from0 == 0 || number(v[1]) < l.from0 {
			l.from0 = number(v[1])
		}
		if l.processes[pid] == nil || number(v[1]) > l.until {
			return
		}
		s := by[pid]
		if s == nil {
			s = &series{}
			by[pid] = s
		}
		s.us = append(s.us, number(v[1]))
		s.anon, s.shared = append(s.anon, orNaN(v[2])), append(s.shared, orNaN(v[3]))
		s.file, s.space = append(s.file, orNaN(v[4])), append(s.space, orNaN(v[5]))
		s.dirty = append(s.dirty, orNaN(v[6]))
		l.seen[pid] = number(v[1])
	})
	for pid, s := range by {
		p := l.processes[pid]
		xs, ok := l.stepsOf(pid, s.us, p)
		if !ok {
			continue
		}
		p.Shared, p.Mapped, p.Space = detect.Series{Steps: xs, Bytes: s.shared},
			detect.Series{Steps: xs, Bytes: s.file}, detect.Series{Steps: xs, Bytes: s.space}
		p.Unshared = detect.Series{Steps: xs, Bytes: s.dirty}
		p.Dirty = detect.Series{Steps: xs, Bytes: written(s.dirty, s.anon)}
		if l.clocks[pid] == nil {
			p.Anon = detect.Series{Steps: xs, Bytes: s.anon}
		}
	}
	return err
}

// written is what a process has written to of files that it has mapped: its dirty pages less the anonymous ones.
func written(dirty, anon []float64) []float64 {
	out := make([]float64, len(dirty))
	for i := range out {
		if out[i] = dirty[i] - anon[i]; out[i] < 0 { // some anonymous ones are shared with a child
			out[i] = 0
		}
	}
	return out
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

// input puts the processes in order.
func (l *loader) input() detect.Input {
	in := detect.Input{Host: l.host, Steps: l.most, Over: l.over, Warnings: l.warnings}
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
	slices.SortFunc(in.Processes, func(a, b detect.Process) int { return a.PID - b.PID })
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

func add(s *detect.Series, step, value any) {
	if step == nil || value == nil {
		return
	}
	s.Steps, s.Bytes = append(s.Steps, number(step)), append(s.Bytes, number(value))
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

func orZero(v any) float64 { return number(v) }

func orNaN(v any) float64 {
	if v == nil {
		return math.NaN()
	}
	return number(v)
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
