// Package collector is the life of the background process that belongs to a session: it takes the session's lock, drains
// the rings into the database, answers over the socket, keeps the database within its bounds, and ends when the job has
// ended. It composes; what the parts do is theirs.
package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/ingest"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/sampler"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/sock"
	"github.com/memgauge/memgauge/internal/stacks"
	"github.com/memgauge/memgauge/internal/store"
)

const (
	livenessEvery = time.Second            // after the job's end the collector may stay that long
	maintainEvery = 30 * time.Second       // the database grows by some MB in that time at most
	niceness      = 10                     // a query gives way to a trainer that wants the core
	oomScore      = 500                    // under memory pressure the collector goes before the trainer does
	finishGrace   = 200 * time.Millisecond // for answers that are under way when the job has ended
)

// Collector runs one session.
type Collector struct {
	// OpenGPUs finds the GPUs to be sampled; this machine's unless it is replaced before Run. pids lists the job's processes.
	OpenGPUs func(log *slog.Logger, pids func() []int) sampler.GPUs

	s   *session.Session
	log *slog.Logger
}

// New makes a collector; nothing starts before Run.
func New(s *session.Session, log *slog.Logger) *Collector {
	return &Collector{s: s, log: log, OpenGPUs: localGPUs}
}

// Run serves the session until the job has ended or ctx is done. It returns session.ErrLocked when another collector is
// there already.
func (c *Collector) Run(ctx context.Context) error {
	lock, err := c.s.TryLock(true)
	if err != nil {
		return err
	}
	defer lock.Release()
	stepAside(c.log)
	listener, err := sock.Listen(c.s.Socket())
	if err != nil {
		return err
	}
	defer listener.Close()
	again := &replacer{c: c}
	owner, err := Open(ctx, c.s, false, again.stuck)
	if err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	again.owner = owner
	reserveForGo()
	if err := store.BoundMemory(); err != nil {
		c.log.Warn("the collector's memory has no bound", "error", err)
	}
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	ended := make(chan struct{}, 1)
	server := api.Server(ctx, api.Handler(owner.Service(), func() { notify(ended) }))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	sampling, sampled := context.WithCancel(ctx)
	defer sampled()
	watched := make(chan struct{})
	g.Go(func() error {
		defer close(watched)
		w := newWatch(c.s, owner, c.log)
		w.openGPUs = c.OpenGPUs
		return w.run(sampling)
	})
	judged := make(chan struct{})
	g.Go(func() error {
		defer close(judged)
		newJudge(owner, c.log).run(sampling)
		return nil
	})
	g.Go(func() error {
		defer finish()
		defer shutdown(server)
		return c.loop(ctx, owner, ended, func() { sampled(); <-watched; <-judged })
	})
	err = g.Wait()
	if cerr := owner.Close(); err == nil {
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

// shutdown lets answers that are under way finish, for a moment.
func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), finishGrace)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
}

// stepAside makes the process the first to give way: in CPU time and in memory.
func stepAside(log *slog.Logger) {
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness); err != nil {
		log.Warn("lower the priority", "error", err)
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", fmt.Appendf(nil, "%d", oomScore), 0); err != nil {
		log.Warn("raise the OOM score", "error", err)
	}
}

// loop drains until the job has ended. A drain that fails is tried again: the rings keep what is not in the database.
// Before the end stop lets the samplers have a last look.
func (c *Collector) loop(ctx context.Context, o *Owner, ended <-chan struct{}, stop func()) error {
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
			if _, err := o.gather(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("drain", "error", err)
			}
		case <-maintain.C:
			if err := o.Maintain(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("keep the database small", "error", err)
			}
		}
	}
}

// patience is how long rows may wait in memory. While a question runs that may cost this process it is short.
func (o *Owner) patience() time.Duration {
	if o.db.Oldest() > drainEvery {
		return 0
	}
	return hold(o.heaps.age())
}

func (c *Collector) finish(o *Owner) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a full ring takes well under a second
	defer cancel()
	return o.Finish(ctx)
}

// Owner is the open database of a session together with its rings, in the process that holds the session's lock: a
// collector, or a client that looks at a finished session.
type Owner struct {
	s        *session.Session
	db       *store.DB
	rings    *ingest.Ingester
	readOnly bool

	pending pending    // of the samplers
	heaps   heaps      // what the trainers said last
	ooms    chan int64 // times of events that tell of a failed allocation

	verdicts struct {
		sync.Mutex
		last  detect.Report
		count int64
	}
}

// Open opens the session's database and, unless readOnly, what is needed to drain its rings. stuck is what store.Options say.
func Open(ctx context.Context, s *session.Session, readOnly bool, stuck func(string)) (*Owner, error) {
	opts := store.Options{Path: s.Database(), ReadOnly: readOnly, MaxDisk: s.Meta.MaxDisk, Stuck: stuck}
	if !readOnly {
		opts.Threads = 1 // beside a training: a second one waits for the first in a loop, for most of what we ask
	}
	db, err := store.Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	o := &Owner{s: s, db: db, readOnly: readOnly, heaps: heaps{last: map[int32][2]int64{}}, ooms: make(chan int64, 1)}
	if !readOnly {
		o.rings = ingest.New(s.Rings(), tap{db, &o.heaps, o.ooms}, ingest.Options{Alive: s.Alive})
	}
	return o, nil
}

// Service answers questions about the session.
func (o *Owner) Service() *api.Service {
	svc := &api.Service{DB: o.db, Tmp: os.TempDir()}
	if !o.readOnly {
		svc.Drain, svc.Backtrace, svc.Processes, svc.Tmp = o.Drain, o.backtrace, o.s.Processes, o.s.Dir
	}
	return svc
}

// backtrace asks every live process of the session for its stacks.
func (o *Owner) backtrace(ctx context.Context) (rows []model.Backtrace, err error) {
	ctx, cancel := context.WithTimeout(ctx, stacks.Patience)
	defer cancel()
	for _, p := range stacks.All(ctx, o.s.Askable(), false) {
		rows = append(rows, p.Rows()...)
	}
	return rows, nil
}

// Drain brings what is in the rings, and what was sampled, into the database.
func (o *Owner) Drain(ctx context.Context) (ingest.Stats, error) { return o.drain(ctx, 0) }

// drain stores what was sampled once it has waited so long.
func (o *Owner) drain(ctx context.Context, wait time.Duration) (ingest.Stats, error) {
	stats, err := o.rings.Drain(ctx)
	return stats, errors.Join(err, o.storeSamples(ctx, wait))
}

// gather reads what the rings hold, and stores it and what was sampled once that has waited long enough.
func (o *Owner) gather(ctx context.Context) (ingest.Stats, error) {
	wait := o.patience()
	stats, err := o.rings.Gather(ctx, wait)
	return stats, errors.Join(err, o.storeSamples(ctx, wait))
}

func (o *Owner) storeSamples(ctx context.Context, wait time.Duration) error {
	b := o.pending.take(time.Now(), wait)
	if b == nil {
		return nil
	}
	var err error
	took := sampler.ThreadTime(func() { err = o.db.Append(context.WithoutCancel(ctx), b) })
	if err != nil {
		o.pending.back(b)
		return fmt.Errorf("store samples: %w", err)
	}
	o.pending.stored(took)
	return nil
}

// Maintain keeps the database within its size.
func (o *Owner) Maintain(ctx context.Context) error {
	_, err := o.db.Maintain(ctx)
	return err
}

// Finish drains what is left once the job has ended, says how it ended if memgauge run no longer could, and leaves a
// compact database.
func (o *Owner) Finish(ctx context.Context) error {
	if _, err := o.rings.Finish(ctx); err != nil {
		return fmt.Errorf("drain what is left: %w", err)
	}
	if err := o.storeSamples(ctx, 0); err != nil {
		return err
	}
	if err := o.lastJudgement(ctx); err != nil {
		return err
	}
	if err := o.recordEnd(ctx); err != nil {
		return err
	}
	if err := o.db.SetBacktrace(ctx, nil); err != nil {
		return err
	}
	if err := o.Maintain(ctx); err != nil {
		return fmt.Errorf("keep the database small: %w", err)
	}
	return o.db.Checkpoint(ctx)
}

// recordEnd completes end.json and adds the end to memgauge.events, once.
func (o *Owner) recordEnd(ctx context.Context) error {
	end, ok, err := o.s.End()
	if err != nil {
		return err
	}
	refused := o.rings.Refused()
	if ok && end.Recorded {
		if slices.Equal(end.Refused, refused) {
			return nil
		}
		end.Refused = refused
		return o.s.SetEnd(end)
	}
	sum, err := o.Service().Summary(ctx)
	if err != nil {
		return err
	}
	if !ok {
		end = session.End{Ended: time.Now().UTC(), State: "lost"}
		if o.s.Meta.Attached {
			end.State = o.fateOfAttached(ctx)
		}
	}
	end.Refused = refused
	end.PIDs, end.Ranks, end.Recorded, end.Rows = sum.PIDs, sum.Ranks, true, sum.Rows
	end.Peak = max(end.Peak, sum.PeakRSS)
	if end.OOM, err = o.outOfMemory(ctx); err != nil {
		return err
	}
	event := model.Event{Time: end.Ended.UnixMicro(), PID: int32(o.s.Meta.Process.PID), Rank: -1, Name: "end", Text: end.String(), A: int64(end.Code), B: model.Null}
	if err := o.db.Append(ctx, &model.Batch{Events: []model.Event{event}}); err != nil {
		return fmt.Errorf("record the end: %w", err)
	}
	return o.s.SetEnd(end)
}

// outOfMemory says whether the job met the end of its memory.
func (o *Owner) outOfMemory(ctx context.Context) (why string, err error) {
	err = each(ctx, o.db, "SELECT name FROM memgauge.events WHERE name IN ('oom', 'oom_kill') GROUP BY name ORDER BY name", func(v []any) {
		why = session.OOMError
		if v[0] == "oom_kill" {
			why = session.OOMKill
		}
	})
	return why, err
}

// fateOfAttached is how the last observed process ended, by what its ring says: detached (where the one who detached could
// not write it down), ended (its Python came to its end) or vanished (killed, or left without a word).
func (o *Owner) fateOfAttached(ctx context.Context) string {
	rows, err := o.db.Query(ctx, "SELECT ending FROM memgauge.processes ORDER BY ended DESC NULLS LAST LIMIT 1")
	if err != nil {
		return "vanished"
	}
	defer rows.Close()
	if !rows.Next() {
		return "vanished"
	}
	if ending, _ := rows.Values()[0].(string); ending == "exited" {
		return "ended"
	} else if ending == "detached" {
		return ending
	}
	return "vanished"
}

// Close closes the database and the rings.
func (o *Owner) Close() error {
	var err error
	if o.rings != nil {
		err = errors.Join(o.storeSamples(context.Background(), 0), o.rings.Close())
	}
	return errors.Join(err, o.db.Close())
}

var _ io.Closer = (*Owner)(nil)
