// Package collector is the background process of a session, from the lock that it takes to the end of the job.
// It decides when the session's owner drains, stores and cleans up. It samples the job from outside, judges it, and
// serves requests on a socket. It yields to the trainer: it has a low CPU priority, is the first to be killed when
// memory is short, and is replaced if a query can't be stopped. How to store and finish a session is in package owner,
// which clients use too. The package knows of no client.
package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/door/owner"
	"github.com/memgauge/memgauge/internal/probe/sampler"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

const (
	livenessEvery = time.Second            // checks whether the job runs; the collector may outlive it by so much
	maintainEvery = 30 * time.Second       // the database grows by some MB in that time at most
	niceness      = 10                     // a trainer that wants the core has priority over a query
	oomScore      = 500                    // when memory is short the kernel kills the collector before the trainer
	finishGrace   = 200 * time.Millisecond // for requests that are being answered when the job has ended
)

// Collector is the process of one session.
type Collector struct {
	// OpenGPUs returns the GPUs to be sampled. New sets it to this machine's; tests replace it before Run. pids lists
	// the job's processes.
	OpenGPUs func(log *slog.Logger, pids func() []int) sampler.GPUs

	s   *session.Session
	log *slog.Logger
}

// New makes a collector; nothing starts before Run.
func New(s *session.Session, log *slog.Logger) *Collector {
	return &Collector{s: s, log: log, OpenGPUs: localGPUs}
}

// Run serves the session until the job has ended or ctx is done. It returns session.ErrLocked if the session has
// another collector.
func (c *Collector) Run(ctx context.Context) error {
	lock, err := c.s.TryLock(true)
	if err != nil {
		return err
	}
	defer lock.Release()
	lock.Say("collects")
	stepAside(c.log)
	listener, err := sock.Listen(c.s.Socket())
	if err != nil {
		return err
	}
	defer listener.Close()
	again := &replacer{c: c}
	o, err := owner.Open(ctx, c.s, false, again.stuck)
	if err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	again.owner = o
	cell.ReserveForGo()
	if err := store.BoundMemory(); err != nil {
		c.log.Warn("the collector's memory has no bound", "error", err)
	}
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	ended := make(chan struct{}, 1)
	answers := api.Handler(o.Service(), api.Owner, func() { notify(ended) })
	server := api.Server(ctx, api.NewCatcher(c.log).Wrap(answers))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	sampling, sampled := context.WithCancel(ctx)
	defer sampled()
	sampledAll := make(chan struct{})
	g.Go(func() error {
		defer close(sampledAll)
		w := newSampling(c.s, o, c.log)
		w.openGPUs = c.OpenGPUs
		return w.run(sampling)
	})
	judged := make(chan struct{})
	g.Go(func() error {
		defer close(judged)
		newJudge(c.s, o, c.log).run(sampling)
		return nil
	})
	g.Go(func() error {
		defer finish()
		defer shutdown(server)
		return c.loop(ctx, o, again, ended, func() {
			lock.Say("stores and judges what the job left")
			sampled()
			<-sampledAll
			<-judged
		})
	})
	err = g.Wait()
	if cerr := o.Close(); err == nil {
		err = cerr
	}
	return err
}

func notify(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// shutdown stops the server, and gives requests that are being answered a moment to finish.
func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), finishGrace)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
}

// stepAside lowers the process's CPU priority and makes it the first to be killed when memory is short.
func stepAside(log *slog.Logger) {
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness); err != nil {
		log.Warn("lower the priority", "error", err)
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", fmt.Appendf(nil, "%d", oomScore), 0); err != nil {
		log.Warn("raise the OOM score", "error", err)
	}
}

// loop drains until the job has ended. A failed drain is repeated: the rings keep what is not in the database. Before
// it returns, it calls stop, in which the samplers take a last sample.
func (c *Collector) loop(ctx context.Context, o *owner.Owner, again *replacer, ended <-chan struct{},
	stop func()) error {
	drain, alive, maintain := time.NewTicker(drainEvery), time.NewTicker(livenessEvery), time.NewTicker(maintainEvery)
	defer drain.Stop()
	defer alive.Stop()
	defer maintain.Stop()
	var company kept
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			if !c.s.Live() {
				stop()
				return c.finish(o)
			}
		case <-alive.C:
			if !c.s.Live() {
				stop()
				return c.finish(o)
			}
			if err := company.look(c.s); err != nil {
				c.log.Error("start who sees to it that there is a collector", "error", err)
			}
		case <-drain.C:
			_, err := o.Gather(ctx)
			if err != nil && ctx.Err() == nil {
				c.log.Error("drain", "error", err)
			}
			again.look(err)
		case <-maintain.C:
			if err := o.Maintain(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("keep the database small", "error", err)
			}
		}
	}
}

func (c *Collector) finish(o *owner.Owner) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a full ring takes well under a second
	defer cancel()
	return o.Finish(ctx)
}
