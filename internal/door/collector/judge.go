package collector

import (
	"context"
	"log/slog"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/owner"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
)

const (
	censusGrowth  = 1.25             // censuses are compared: the next one when there are so many times more steps, …
	censusRest    = time.Second      // … and not before
	censusTimeout = 20 * time.Second // a busy trainer takes some; one that is gone is an error at once
	maxCensuses   = 24               // of one process: with a quarter more steps each, 24 are 200 times the first one's
)

// judge judges the live session now and then, and stores its findings in memgauge.findings. It has a process whose
// memory may be growing take a census, which is impossible after the process's end.
type judge struct {
	o       *owner.Owner
	log     *slog.Logger
	service *service.Service
	began   time.Time
	asked   map[int]*asked
	classes classes
}

// asked is the state of a process's censuses.
type asked struct {
	count int
	step  float64
	at    time.Time
}

func newJudge(s *session.Session, o *owner.Owner, log *slog.Logger) *judge {
	return &judge{o: o, log: log, service: o.Service(), began: time.Now(), asked: map[int]*asked{},
		classes: classes{s: s, fs: proc.New("/proc")}}
}

// run judges until ctx ends. The time before the first step doesn't count in the pauses: imports may take longer than
// the training that follows, and must not delay its first verdict.
func (j *judge) run(ctx context.Context) {
	ticker := time.NewTicker(firstLook)
	defer ticker.Stop()
	due := j.began.Add(idleLook)
	training, spent := false, time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !training && !j.o.Trainers().Began().IsZero() {
			training, spent, due = true, 0, time.Time{}
			j.began = time.Now()
		}
		if training && j.o.Rests() { // nobody has asked: what is read of the maps alone can't wait for a verdict
			j.classes.look(ctx, j.o, time.Since(j.began))
			continue
		}
		if time.Now().Before(due) {
			continue
		}
		cost, err := j.look(ctx)
		if err != nil && ctx.Err() == nil {
			j.log.Error("judge", "error", err)
		}
		spent += cost
		due = time.Now().Add(lookAfter(spent, time.Since(j.began)))
	}
}

// look judges once and returns the CPU time it used: time spent waiting costs nobody anything. A census is paid for by
// the agent's budget.
func (j *judge) look(ctx context.Context) (cost time.Duration, err error) {
	begin, used := time.Now(), cpuTime()
	done := func() time.Duration { return min(time.Since(begin), cpuTime()-used) }
	// Samples may be missing for a sixth of the run's time at most: storing them costs as much as sampling.
	if _, err := j.o.DrainOlder(ctx, min(time.Since(j.began)/6, owner.HoldMost)); err != nil {
		return done(), err
	}
	in, err := j.o.Load(ctx)
	if err != nil {
		return done(), err
	}
	err = j.o.Keep(ctx, detect.Run(in))
	j.classes.look(ctx, j.o, time.Since(j.began))
	cost = done()
	j.ask(ctx, in)
	return cost, err
}

// cpuTime returns the CPU time of this process on all cores. So a look's cost includes what other goroutines use
// meanwhile.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ask takes a census of processes that may be leaking and make no steps. Those that make steps take censuses by
// themselves (docs/census.md). A census that the agent's budget doesn't allow is requested again later.
func (j *judge) ask(ctx context.Context, in detect.Input) {
	var pids []int
	for _, p := range in.Processes {
		a := j.asked[p.PID]
		if a == nil {
			a = &asked{}
			j.asked[p.PID] = a
		}
		now := p.Steps()
		if !p.Worker && !p.ByTime || p.Ended || a.count >= maxCensuses || time.Since(a.at) < censusRest ||
			now < a.step*censusGrowth || !detect.Suspicious(p) {
			continue
		}
		a.count, a.step, a.at = a.count+1, now, time.Now()
		pids = append(pids, p.PID)
	}
	for _, pid := range pids { // one by one: a process that doesn't answer must not keep others from theirs
		reply, err := j.service.Census(ctx, api.CensusRequest{PIDs: []int{pid}, Timeout: censusTimeout})
		if err == nil && len(reply.Censuses) > 0 && reply.Censuses[0].Error != nil {
			err = reply.Censuses[0].Error
		}
		if err != nil && ctx.Err() == nil {
			j.log.Info("census", "pid", pid, "why not", err)
		}
		// One that the budget did not allow yet, or that was on its way, is asked for at the next look.
		if err != nil && time.Since(j.asked[pid].at) < censusTimeout/2 {
			j.asked[pid].step, j.asked[pid].count = 0, j.asked[pid].count-1
		}
	}
}
