package collector

import (
	"context"
	"log/slog"
	"time"

	"github.com/memgauge/memgauge/internal/door/owner"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/gpu/discover"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/probe/sampler"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

const (
	sampleEvery   = time.Second
	relookEvery   = 2 * time.Second  // which processes have a ring, which of them train
	overheadEvery = 30 * time.Second // a row for each part of sampling
	spillEvery    = 10 * time.Second // a job that is killed again and again must not fill the disk with windows
)

// sampling samples the job from outside while the collector runs. The owner keeps the samples until it stores them.
type sampling struct {
	s       *session.Session
	log     *slog.Logger
	o       *owner.Owner
	sampler *sampler.Sampler
	every   time.Duration

	openGPUs func(log *slog.Logger, pids func() []int) sampler.GPUs

	procs   map[int]session.Process
	looked  time.Time
	told    time.Time // overheads
	spilled time.Time
}

func newSampling(s *session.Session, o *owner.Owner, log *slog.Logger) *sampling {
	w := &sampling{s: s, o: o, log: log, every: sampleEvery, procs: map[int]session.Process{}}
	if s.Meta.Interval > 0 {
		w.every = s.Meta.Interval
	}
	w.sampler = sampler.New(sampler.Options{Roots: w.roots, About: w.about})
	return w
}

// localGPUs opens this machine's GPUs; nil if there are none.
func localGPUs(log *slog.Logger, pids func() []int) sampler.GPUs {
	found := discover.Open("/", pids)
	if found.NVIDIA != nil {
		log.Info("no NVIDIA GPUs", "why", found.NVIDIA)
	}
	if found.Set == nil {
		return nil
	}
	return found.Set
}

// run samples until ctx ends, and once more then: if the job was killed for memory, its cgroup's counter shows that.
func (w *sampling) run(ctx context.Context) error {
	defer w.sampler.Close()
	w.remember(ctx)
	w.sampler.SetGPUs(w.openGPUs(w.log, w.sampler.PIDs))
	glance := time.NewTimer(sampler.GlanceEvery)
	defer glance.Stop()
	pause := min(densest, w.every) // so that jobs of less than a second have samples too
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
		case oom := <-w.o.OOMs():
			w.spill(oom)
		}
	}
}

// pause returns the sampling interval that follows before: short while the training is young, then longer, up to the
// configured one. A training's age counts from its first step, since imports may take longer than the training. At the
// beginning of the session pauses double, since the whole session may be short.
func (w *sampling) pause(before time.Duration) time.Duration {
	age := time.Since(w.s.Meta.Started)
	if training := w.o.Trainers().Age(); training > 0 {
		age = min(age, training)
	}
	return min(sampleAfter(age, w.every), 2*before)
}

// remember restores the kill counters, and which processes have trained, from what an earlier collector has stored.
func (w *sampling) remember(ctx context.Context) {
	if w.o.Rests() {
		return // there is none
	}
	for sql, set := range map[string]func([]any){
		"SELECT path, max(events_oom_kill) FROM cgroup.memory GROUP BY path HAVING max(events_oom_kill) IS NOT NULL": func(v []any) {
			path, _ := v[0].(string)
			w.sampler.SetKills(path, integer(v[1]))
		},
		"SELECT DISTINCT pid FROM python.steps WHERE NOT inference": func(v []any) {
			w.o.Trainers().Note([]model.Step{{PID: int32(integer(v[0])), HeapInUse: model.Null}})
		},
		"SELECT max(oom_kills) FROM host.memory HAVING max(oom_kills) IS NOT NULL": func(v []any) {
			w.sampler.SetKills("", integer(v[0]))
		},
	} {
		if err := store.Each(ctx, w.o, sql, set); err != nil && ctx.Err() == nil {
			w.log.Warn("read what an earlier collector has counted", "error", err)
		}
	}
}

func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

// roots returns the command and every process with a ring. An observed process belongs to the job even if it doesn't
// descend from the command.
func (w *sampling) roots() []int {
	if now := time.Now(); now.Sub(w.looked) >= relookEvery || w.s.Meta.Process.PID == 0 {
		w.looked = now
		if w.s.Meta.Process.PID == 0 { // memgauge run writes it once the command runs
			if again, err := session.Open(w.s.Dir); err == nil {
				w.s = again
			}
		}
		if len(w.procs) > owner.MaxTrainers {
			clear(w.procs)
		}
		for pid, p := range w.procs {
			p.Alive = false
			w.procs[pid] = p
		}
		for _, p := range w.s.Processes() {
			// A large ring doesn't prove PyTorch, since a census opens one too; and a process's rings may be drained
			// and removed. So PyTorch is remembered.
			p.Torch = w.procs[p.PID].Torch && w.procs[p.PID].Start == p.Start ||
				p.Torch && proc.New("/proc").Mapped(p.PID, "libtorch")
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

func (w *sampling) about(pid int) sampler.About {
	a := sampler.Nothing
	if p, ok := w.procs[pid]; ok {
		a.Rank, a.Trainer = int32(p.Rank), p.Torch
	}
	a.HeapInUse, a.HeapHeld = w.o.Trainers().Heap(int32(pid))
	a.Steps = w.o.Trainers().Trains(int32(pid))
	return a
}

func (w *sampling) sample(last bool) {
	rows := w.sampler.Sample()
	w.o.Add(&model.Batch{Samples: *rows})
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

func (w *sampling) tellCosts(at time.Time) {
	rows := w.sampler.Overheads(at)
	if len(rows) > 0 {
		rows = append(rows, w.o.StoringCost(rows[0]))
	}
	w.o.Add(&model.Batch{Overheads: rows})
}

// killed stores an event for a kill, and the samples of the minute before it.
func (w *sampling) killed(k sampler.Kill) {
	e := model.Event{Time: k.Time, Rank: -1, Name: "oom_kill", Text: k.String(), A: model.Null, B: k.Limit}
	if len(k.Victims) > 0 {
		e.PID, e.A = int32(k.Victims[0].PID), k.Victims[0].Bytes
	}
	w.o.Add(&model.Batch{Events: []model.Event{e}})
	w.spill(k.Time)
}

// spill stores the last minute at full resolution.
func (w *sampling) spill(event int64) {
	now := time.Now()
	if now.Sub(w.spilled) < spillEvery && !w.spilled.IsZero() {
		return
	}
	w.spilled = now
	w.o.Add(&model.Batch{Samples: model.Samples{Window: w.sampler.Window(event)}})
}
