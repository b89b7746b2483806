package collector

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/analyse"
	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/owner"
	"github.com/memgauge/memgauge/internal/proc"
	"github.com/memgauge/memgauge/internal/service"
	"github.com/memgauge/memgauge/internal/session"
)

const (
	censusGrowth  = 1.25             // censuses are compared: the next one when there are so many times more steps, …
	censusRest    = time.Second      // … and not before
	censusTimeout = 20 * time.Second // a busy trainer takes some; one that is gone is an error at once
	maxCensuses   = 24               // of one process: with a quarter more steps each, 24 are 200 times the first one's
)

// judge looks at the session now and then while it lives, keeps what it finds in memgauge.findings, and asks a process
// whose memory may be growing what it holds: afterwards nobody can.
type judge struct {
	o       *owner.Owner
	log     *slog.Logger
	service *service.Service
	began   time.Time
	asked   map[int]*asked
	classes classes
}

// asked is what is known of a process's censuses.
type asked struct {
	count int
	step  float64
	at    time.Time
}

func newJudge(s *session.Session, o *owner.Owner, log *slog.Logger) *judge {
	return &judge{o: o, log: log, service: o.Service(), began: time.Now(), asked: map[int]*asked{},
		classes: classes{s: s, fs: proc.New("/proc")}}
}

// run looks until ctx ends. What was looked at before the first step says nothing of the training, and must not delay
// the first look at it: imports may take longer than the training that follows.
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

// look gives what it cost, in CPU time: a look that had to wait for others took nothing from them. A census is paid for
// by the agent's budget.
func (j *judge) look(ctx context.Context) (cost time.Duration, err error) {
	begin, used := time.Now(), cpuTime()
	done := func() time.Duration { return min(time.Since(begin), cpuTime()-used) }
	// What was sampled lags behind by a sixth of the run at most: storing it costs as much as sampling.
	if _, err := j.o.DrainOlder(ctx, min(time.Since(j.began)/6, owner.HoldMost)); err != nil {
		return done(), err
	}
	in, err := analyse.Load(ctx, j.o, analyse.Options{})
	if err != nil {
		return done(), err
	}
	err = errors.Join(j.o.Keep(ctx, detect.Run(in)), j.classes.look(ctx, j.o, time.Since(j.began)))
	cost = done()
	j.ask(ctx, in)
	return cost, err
}

// cpuTime is what this process has used of all cores: more than a look's own, where others work at the same time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ask takes a census of the processes that may be leaking and make no steps: those that do take some of themselves
// (docs/census.md). What the agent's own budget doesn't allow is asked again later.
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
	for _, pid := range pids { // one by one: a process that can't be asked must not keep others from it
		reply, err := j.service.Census(ctx, api.CensusRequest{PIDs: []int{pid}, Timeout: censusTimeout})
		if err == nil && len(reply.Censuses) > 0 && reply.Censuses[0].Error != nil {
			err = reply.Censuses[0].Error
		}
		if err != nil && ctx.Err() == nil {
			j.log.Info("census", "pid", pid, "why not", err)
		}
	}
}
