package ask

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/owner"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/session"
)

// CellKind is the kind of the cells that answer for a finished session.
const CellKind = "session"

// task is what such a cell is told.
type task struct{ Dir, Note string }

// Inside opens a finished session in the cell's own process. The parent holds its lock.
func Inside(ctx context.Context, text []byte) (http.Handler, error) {
	t, err := cell.Task[task](text)
	if err != nil {
		return nil, err
	}
	s, err := session.Open(t.Dir)
	if err != nil {
		return nil, err
	}
	o, err := owner.Open(ctx, s, true, nil) // a question that can't be stopped is the parent's, who kills this process
	if err != nil {
		return nil, err
	}
	svc := o.Service()
	svc.Note = t.Note
	return api.Handler(svc, api.Reading|api.MayFinish, func() {}), nil
}

// apart is a finished session for which a process of its own answers: what is asked comes from outside, and this
// process must outlive it. The process begins with the first question. One that has failed an answer gets no further
// questions, since what failed may have left it without memory; the next question has another begin.
type apart struct {
	task task
	read []string
	lock *session.Lock

	mu   sync.Mutex
	cell *worker // nil: none that is fit
	over sync.WaitGroup
}

// worker is a cell and how many questions it works on.
type worker struct {
	*cell.Cell
	users int
	unfit bool
}

// openApart takes the session's lock; nothing starts yet.
func openApart(ctx context.Context, s *session.Session, note string) (database, error) {
	lock, err := lockBusy(ctx, s, false, lockTimeout, never)
	if err != nil {
		return nil, err
	}
	if note != "" {
		note += inDatabase
	}
	return &apart{task: task{s.Dir, note}, read: []string{s.Dir, s.Runtime()}, lock: lock}, nil
}

func (a *apart) enter() (*worker, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cell == nil || a.cell.Gone() {
		a.dropLocked()
		c, err := cell.Start(cell.Spec{Kind: CellKind, Task: a.task, Read: a.read})
		if err != nil {
			return nil, err
		}
		a.cell = &worker{Cell: c}
	}
	a.cell.users++
	return a.cell, nil
}

func (a *apart) leave(w *worker, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.users--
	if err != nil && !errors.Is(err, api.ErrRefused) && a.cell == w {
		a.dropLocked()
	} else if w.unfit && w.users == 0 {
		a.over.Go(func() { _ = w.Close() })
	}
}

// dropLocked gives the worker no further question.
func (a *apart) dropLocked() {
	w := a.cell
	if a.cell = nil; w == nil {
		return
	}
	if w.unfit = true; w.users == 0 {
		a.over.Go(func() { _ = w.Close() })
	}
}

// Close ends the processes. Questions that are being answered must have ended.
func (a *apart) Close() error {
	a.mu.Lock()
	a.dropLocked()
	a.mu.Unlock()
	a.over.Wait()
	a.lock.Release()
	return nil
}

// through has a worker answer.
func through[T any](ctx context.Context, a *apart, own time.Duration,
	ask func(context.Context, *cell.Cell) (T, error)) (v T, err error) {
	w, err := a.enter()
	if err != nil {
		return v, err
	}
	err = w.Within(ctx, own, func(ctx context.Context) (err error) {
		v, err = ask(ctx, w.Cell)
		return err
	})
	a.leave(w, err)
	return v, err
}

// Query runs a statement.
func (a *apart) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	if err := q.Check(); err != nil {
		return err
	}
	_, err := through(ctx, a, q.Timeout, func(ctx context.Context, c *cell.Cell) (struct{}, error) {
		return struct{}{}, c.Query(ctx, q, w)
	})
	return err
}

// Tables describes the tables.
func (a *apart) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	return through(ctx, a, 0, func(ctx context.Context, c *cell.Cell) ([]model.Table, error) {
		return c.Tables(ctx, all)
	})
}

// Summary describes the session in figures.
func (a *apart) Summary(ctx context.Context) (api.Summary, error) {
	return through(ctx, a, 0, func(ctx context.Context, c *cell.Cell) (api.Summary, error) { return c.Summary(ctx) })
}

// Outcome is Summary with the verdict.
func (a *apart) Outcome(ctx context.Context) (api.Summary, error) {
	return through(ctx, a, 0, func(ctx context.Context, c *cell.Cell) (api.Summary, error) { return c.Finish(ctx) })
}

// Events calls take for each event.
func (a *apart) Events(ctx context.Context, q api.EventsRequest, take func(api.Event) error) error {
	_, err := through(ctx, a, 0, func(ctx context.Context, c *cell.Cell) (struct{}, error) {
		return struct{}{}, c.Events(ctx, q, take)
	})
	return err
}

// Leak judges the session.
func (a *apart) Leak(ctx context.Context, q api.LeakRequest) (detect.Report, error) {
	return through(ctx, a, 0, func(ctx context.Context, c *cell.Cell) (detect.Report, error) { return c.Leak(ctx, q) })
}

// OOM predicts when memory runs out.
func (a *apart) OOM(ctx context.Context, q api.OOMRequest) (*monitor.Report, error) {
	return through(ctx, a, 0, func(ctx context.Context, c *cell.Cell) (*monitor.Report, error) { return c.OOM(ctx, q) })
}

// Census fails: no process of the session lives.
func (a *apart) Census(ctx context.Context, q api.CensusRequest) (api.CensusReply, error) {
	return through(ctx, a, 0, func(ctx context.Context, c *cell.Cell) (api.CensusReply, error) {
		return c.Census(ctx, q)
	})
}
