package collector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/gpu/machine"
	"github.com/memgauge/memgauge/internal/ingest"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/proc"
	"github.com/memgauge/memgauge/internal/sampler"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/store"
)

const (
	sampleEvery   = time.Second
	relookEvery   = 2 * time.Second  // which processes have a ring, which of them train
	overheadEvery = 30 * time.Second // a row for each part of sampling
	storeRows     = 20_000           // samples don't wait once there are so many: at 10 Hz and 100 processes 20 s, 6 MiB
	spillEvery    = 10 * time.Second // a job that is killed again and again must not fill the disk with windows
)

// watch samples the job from outside while the collector lives. Its samples wait in pending until the owner stores them.
type watch struct {
	s       *session.Session
	log     *slog.Logger
	o       *Owner
	sampler *sampler.Sampler
	every   time.Duration

	openGPUs func(log *slog.Logger, pids func() []int) sampler.GPUs

	procs   map[int]session.Process
	looked  time.Time
	told    time.Time // overheads
	spilled time.Time
}

func newWatch(s *session.Session, o *Owner, log *slog.Logger) *watch {
	w := &watch{s: s, o: o, log: log, every: sampleEvery, procs: map[int]session.Process{}}
	if s.Meta.Interval > 0 {
		w.every = s.Meta.Interval
	}
	w.sampler = sampler.New(sampler.Options{Roots: w.roots, About: w.about})
	return w
}

// localGPUs are those of this machine; nil where there are none.
func localGPUs(log *slog.Logger, pids func() []int) sampler.GPUs {
	found := machine.Open("/", pids)
	if found.NVIDIA != nil {
		log.Info("no NVIDIA GPUs", "why", found.NVIDIA)
	}
	if found.Set == nil {
		return nil
	}
	return found.Set
}

// run samples until ctx ends, and once more then: a job that was killed leaves its cgroup's counter behind.
func (w *watch) run(ctx context.Context) error {
	defer w.sampler.Close()
	w.remember(ctx)
	w.sampler.SetGPUs(w.openGPUs(w.log, w.sampler.PIDs))
	glance := time.NewTimer(sampler.GlanceEvery)
	defer glance.Stop()
	pause := min(densest, w.every) // jobs that end within a second have a picture too
	tick := time.NewTicker(pause)
	defer tick.Stop()
	w.sample(false)
	for {
		select {
		case <-ctx.Done():
			w.looked = time.Time{}
			w.sample(true)
			w.tellCosts(time.Now())
			return nil
		case <-glance.C:
			w.sampler.Glance()
			glance.Reset(w.sampler.GlancePause())
		case <-tick.C:
			w.sample(false)
			if next := w.pause(pause); next != pause {
				pause = next
				tick.Reset(pause)
			}
		case oom := <-w.o.ooms:
			w.spill(oom)
		}
	}
}

// pause is the time until the next sample. A training is young from its first step on: imports may have taken longer than all of it.
// At the very beginning pauses double up to the interval, since a session may be as short.
func (w *watch) pause(before time.Duration) time.Duration {
	age := time.Since(w.s.Meta.Started)
	if training := w.o.heaps.age(); training > 0 {
		age = min(age, training)
	}
	return min(sampleAfter(age, w.every), 2*before)
}

// remember takes the kill counters, and who has trained, as an earlier collector of this session left them.
func (w *watch) remember(ctx context.Context) {
	for sql, set := range map[string]func([]any){
		"SELECT path, max(events_oom_kill) FROM cgroup.memory GROUP BY path HAVING max(events_oom_kill) IS NOT NULL": func(v []any) {
			path, _ := v[0].(string)
			w.sampler.SetKills(path, integer(v[1]))
		},
		"SELECT DISTINCT pid FROM python.steps WHERE NOT inference": func(v []any) {
			w.o.heaps.note([]model.Step{{PID: int32(integer(v[0])), HeapInUse: model.Null}})
		},
		"SELECT max(oom_kills) FROM host.memory HAVING max(oom_kills) IS NOT NULL": func(v []any) { w.sampler.SetKills("", integer(v[0])) },
	} {
		if err := each(ctx, w.o.db, sql, set); err != nil && ctx.Err() == nil {
			w.log.Warn("read what an earlier collector has counted", "error", err)
		}
	}
}

func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func each(ctx context.Context, db *store.DB, sql string, f func([]any)) error {
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		f(rows.Values())
	}
	return rows.Err()
}

// roots are the command and every process with a ring: one that an agent reached without descending from the command counts.
func (w *watch) roots() []int {
	if now := time.Now(); now.Sub(w.looked) >= relookEvery || w.s.Meta.Process.PID == 0 {
		w.looked = now
		if w.s.Meta.Process.PID == 0 { // memgauge run writes it once the command runs
			if again, err := session.Open(w.s.Dir); err == nil {
				w.s = again
			}
		}
		if len(w.procs) > maxHeaps {
			clear(w.procs)
		}
		for pid, p := range w.procs {
			p.Alive = false
			w.procs[pid] = p
		}
		for _, p := range w.s.Processes() {
			// A process that was asked what it holds has a large ring, with PyTorch or without; and its rings may be drained and gone.
			p.Torch = w.procs[p.PID].Torch && w.procs[p.PID].Start == p.Start || p.Torch && proc.New("/proc").Mapped(p.PID, "libtorch")
			w.procs[p.PID] = p
		}
	}
	var list []int
	if p := w.s.Meta.Process.PID; p > 0 {
		list = append(list, p)
	}
	for pid, p := range w.procs {
		if p.Alive {
			list = append(list, pid)
		}
	}
	return list
}

func (w *watch) about(pid int) sampler.About {
	a := sampler.Nothing
	if p, ok := w.procs[pid]; ok {
		a.Rank, a.Trainer = int32(p.Rank), p.Torch
	}
	a.HeapInUse, a.HeapHeld = w.o.heaps.get(int32(pid))
	a.Steps = w.o.heaps.trains(int32(pid))
	return a
}

func (w *watch) sample(last bool) {
	rows := w.sampler.Sample()
	w.o.pending.add(rows, nil, nil)
	for _, k := range w.sampler.Kills(last) {
		w.killed(k)
	}
	if now := w.sampler.Last(); now.Sub(w.told) >= overheadEvery {
		if !w.told.IsZero() {
			w.tellCosts(now)
		}
		w.told = now
	}
}

func (w *watch) tellCosts(at time.Time) {
	rows := w.sampler.Overheads(at)
	if len(rows) > 0 {
		rows = append(rows, w.o.pending.storing(rows[0]))
	}
	w.o.pending.add(nil, rows, nil)
}

// killed records a kill, and the minute before it.
func (w *watch) killed(k sampler.Kill) {
	e := model.Event{Time: k.Time, Rank: -1, Name: "oom_kill", Text: k.String(), A: model.Null, B: k.Limit}
	if len(k.Victims) > 0 {
		e.PID, e.A = int32(k.Victims[0].PID), k.Victims[0].Bytes
	}
	w.o.pending.add(nil, nil, []model.Event{e})
	w.spill(k.Time)
}

// spill stores the last minute at full resolution.
func (w *watch) spill(event int64) {
	now := time.Now()
	if now.Sub(w.spilled) < spillEvery && !w.spilled.IsZero() {
		return
	}
	w.spilled = now
	w.o.pending.add(&model.Samples{Window: w.sampler.Window(event)}, nil, nil)
}

// pending holds what was sampled and is not stored yet.
type pending struct {
	sync.Mutex
	samples   model.Samples
	overheads []model.Overhead
	events    []model.Event
	drops     []model.Drop
	since     time.Time // of the oldest

	took  time.Duration // CPU time of storing since it was told last
	times int64
}

func (p *pending) stored(took time.Duration) {
	p.Lock()
	defer p.Unlock()
	p.took, p.times = p.took+took, p.times+1
}

// storing is the row of memgauge.overhead for what storing has cost in the same stretch as another part.
func (p *pending) storing(like model.Overhead) model.Overhead {
	p.Lock()
	defer p.Unlock()
	like.Part, like.NS, like.Count = "sampler: store", int64(p.took), p.times
	p.took, p.times = 0, 0
	return like
}

func (p *pending) add(s *model.Samples, o []model.Overhead, e []model.Event) {
	p.Lock()
	defer p.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if s != nil {
		p.samples.Add(s)
	}
	p.overheads, p.events = append(p.overheads, o...), append(p.events, e...)
}

// take empties it into a batch; nil when there is nothing, or nothing that has waited so long.
func (p *pending) take(now time.Time, wait time.Duration) *model.Batch {
	p.Lock()
	defer p.Unlock()
	if p.since.IsZero() || now.Sub(p.since) < wait && p.samples.Rows() < storeRows {
		return nil
	}
	b := &model.Batch{Samples: p.samples, Overheads: p.overheads, Events: p.events, Drops: p.drops}
	p.samples, p.overheads, p.events, p.drops, p.since = model.Samples{}, nil, nil, nil, time.Time{}
	return b
}

// back puts a batch that could not be stored before what came since. What is beyond the bound is lost, and counted.
func (p *pending) back(b *model.Batch) {
	p.Lock()
	defer p.Unlock()
	if b.Rows() > 4*storeRows {
		at := time.Now().UnixMicro()
		b = &model.Batch{Events: b.Events, Drops: append(b.Drops, model.Drop{Time: at, Source: "samplers", Reason: "database not writable", Records: int64(b.Rows())})}
	}
	b.Samples.Add(&p.samples)
	p.samples, p.overheads, p.events = b.Samples, append(b.Overheads, p.overheads...), append(b.Events, p.events...)
	p.drops = append(b.Drops, p.drops...)
	if p.since.IsZero() {
		p.since = time.Now()
	}
}

// tap passes batches on to the database and keeps of them what the samplers show: each process's last reading of its heap, and
// that an allocation failed.
type tap struct {
	*store.DB
	heaps *heaps
	ooms  chan<- int64
}

// Append stores a batch.
func (t tap) Append(ctx context.Context, b *model.Batch) error {
	err := t.DB.Append(ctx, b)
	if err != nil {
		return err
	}
	t.heaps.note(b.Steps)
	for i := range b.Events {
		if b.Events[i].Name == "oom" {
			select {
			case t.ooms <- b.Events[i].Time:
			default: // one is being treated
			}
		}
	}
	return nil
}

var _ ingest.Sink = tap{}

// heaps are the last readings of mallinfo2, by process.
type heaps struct {
	sync.Mutex
	last  map[int32][2]int64
	first time.Time      // when a step was first told of
	steps map[int32]bool // processes that have made steps of training
}

const maxHeaps = 4096 // processes of a job that train

func (h *heaps) note(steps []model.Step) {
	h.Lock()
	defer h.Unlock()
	if h.first.IsZero() && len(steps) > 0 {
		h.first = time.Now()
	}
	for i := range steps {
		if s := &steps[i]; !s.Inference && !h.steps[s.PID] && len(h.steps) < maxHeaps {
			if h.steps == nil {
				h.steps = map[int32]bool{}
			}
			h.steps[s.PID] = true
		}
		if s := &steps[i]; s.HeapInUse != model.Null && (len(h.last) < maxHeaps || h.last[s.PID] != [2]int64{}) {
			h.last[s.PID] = [2]int64{s.HeapInUse, s.HeapHeld}
		}
	}
}

// began is when the first step was told of; zero before that.
func (h *heaps) began() time.Time {
	h.Lock()
	defer h.Unlock()
	return h.first
}

func (h *heaps) trains(pid int32) bool {
	h.Lock()
	defer h.Unlock()
	return h.steps[pid]
}

// age is the time since the first step was told of; zero before that.
func (h *heaps) age() time.Duration {
	if first := h.began(); !first.IsZero() {
		return time.Since(first)
	}
	return 0
}

func (h *heaps) get(pid int32) (inUse, held int64) {
	h.Lock()
	defer h.Unlock()
	if v, ok := h.last[pid]; ok {
		return v[0], v[1]
	}
	return model.Null, model.Null
}
