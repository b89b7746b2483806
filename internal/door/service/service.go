package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/analyse"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Service answers requests in the process that owns the session's database. It is an api.Session whose Close does
// nothing: who has opened the database closes it.
type Service struct {
	Job
	Open  func(context.Context) (*store.DB, error) // gives the database, which it opens when that is first asked for
	Drain func(context.Context) error              // stores what is newest; nil when there is nothing left to read
	Note  string                                   // what the user must know about every answer

	// Sources remembers what was read of the program from one verdict to the next.
	Sources *analyse.Sources

	// Stacks returns the rows of python.backtrace, for a statement that mentions it; nil if no process lives.
	Stacks func(context.Context) ([]model.Backtrace, error)
}

var _ api.Session = (*Service)(nil)

// Opened is Service's Open for a database that is open.
func Opened(db *store.DB) func(context.Context) (*store.DB, error) {
	return func(context.Context) (*store.DB, error) { return db, nil }
}

// Close does nothing.
func (s *Service) Close() error { return nil }

// Query drains the rings, runs the statement and writes its result to w.
func (s *Service) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	if err := q.Check(); err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, q.Timeout)
	defer cancel()
	q.Tell(s.Note)
	if err := s.drain(ctx); err != nil { // a full disk, say: what is stored can be read all the same
		if ctx.Err() != nil {
			return outcome(ctx, err)
		}
		q.Tell("what is newest could not be stored (" + Why(err) + "); the answer has what is in the database")
	}
	if err := s.refresh(ctx, q.SQL); store.IsFull(err) {
		q.Tell("python.backtrace could not be stored (" + Why(err) + "): it is the one before")
	} else if err != nil {
		return outcome(ctx, err)
	}
	db, err := s.Open(ctx)
	if err != nil {
		return err
	}
	s.tellTraced(ctx, q)
	if q.Format == "parquet" {
		return outcome(ctx, db.Blame(ctx, q.SQL, db.ExportTo(ctx, q.SQL, w)))
	}
	return outcome(ctx, db.Blame(ctx, q.SQL, s.render(ctx, db, q, w)))
}

// Why returns an error in a few words if that is possible.
func Why(err error) string {
	if store.IsFull(err) {
		return "the disk is full"
	}
	return err.Error()
}

func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("query: %w of %s", api.ErrTimeout, d))
}

// outcome replaces the error of an interrupted query by the context's reason for the interrupt.
func outcome(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, api.ErrTimeout) {
		return cause
	} else if cause != nil {
		return fmt.Errorf("query: %w", api.ErrCanceled)
	}
	if errors.Is(err, store.ErrRefused) {
		return refused{err}
	}
	return err
}

// refused is the store's refusal as package api knows it.
type refused struct{ error }

func (r refused) Unwrap() error   { return r.error }
func (r refused) Is(t error) bool { return t == api.ErrRefused }

func (s *Service) drain(ctx context.Context) error {
	if s.Drain == nil {
		return nil
	}
	return s.Drain(ctx)
}

// refresh fills python.backtrace anew if the statement mentions it. A mention in a comment only costs some
// milliseconds.
func (s *Service) refresh(ctx context.Context, sql string) error {
	if s.Stacks == nil || !strings.Contains(strings.ToLower(sql), "backtrace") {
		return nil
	}
	rows, err := s.Stacks(ctx)
	if err != nil {
		return fmt.Errorf("python.backtrace: %w", err)
	}
	db, err := s.Open(ctx)
	if err != nil {
		return err
	}
	return db.SetBacktrace(ctx, rows)
}

// tellTraced says of how many steps python.torch_trace has rows, for a statement that mentions it: it is asked about
// the last hundred steps, and has few of them. A lake has no steps of one session, and is not asked.
func (s *Service) tellTraced(ctx context.Context, q api.QueryRequest) {
	if q.Note == nil || s.S == nil || !strings.Contains(strings.ToLower(q.SQL), "torch_trace") {
		return
	}
	found, err := api.Ask(ctx, s, questions.TracedSteps)
	if err != nil || len(found) != 1 || found[0].Traced >= found[0].Steps {
		return // the statement itself tells what fails
	}
	n := found[0]
	why := "modules are watched in samples, as the budget allows (run --trace all: in each step)"
	if n.Traced == 0 {
		why = "no module of PyTorch was watched"
	}
	of := ""
	if n.Processes > 1 {
		of = fmt.Sprintf(" of %d processes", n.Processes)
	}
	q.Tell(fmt.Sprintf("python.torch_trace has rows for %s of %s steps%s: %s; python.steps has every step",
		units.Count(n.Traced), units.Count(n.Steps), of, why))
}

func (s *Service) render(ctx context.Context, db *store.DB, q api.QueryRequest, w io.Writer) error {
	format, err := render.ParseFormat(q.Format)
	if err != nil {
		return err
	}
	rows, err := db.Query(ctx, q.SQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := render.Write(w, rows, format, render.Options{Width: q.Width, Plain: q.Plain}); err != nil {
		return err
	}
	return rows.Err()
}

// Tables describes the tables; with all, memgauge's internal ones too.
func (s *Service) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	if err := s.drain(ctx); err != nil && ctx.Err() != nil {
		return nil, err
	}
	db, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	return db.Tables(ctx, all)
}

// Summary drains the rings and summarizes the session. If draining fails, it summarizes what is stored.
func (s *Service) Summary(ctx context.Context) (api.Summary, error) {
	if err := s.drain(ctx); err != nil && ctx.Err() != nil {
		return api.Summary{}, err
	}
	db, err := s.Open(ctx)
	if err != nil {
		return api.Summary{}, err
	}
	return summarize(ctx, db)
}

const summarySQL = `SELECT
 (SELECT count(*) FROM python.torch_trace) + (SELECT count(*) FROM python.steps)
  + (SELECT count(*) FROM memgauge.events),
 (SELECT coalesce(max(n), 0) FROM (SELECT sum(steps)::BIGINT n FROM python.steps GROUP BY pid)),
 (SELECT coalesce(max(greatest(rss, max_rss)), 0) FROM python.steps),
 (SELECT coalesce(list(DISTINCT pid ORDER BY pid), []) FROM memgauge.processes),
 (SELECT coalesce(list(DISTINCT rank ORDER BY rank) FILTER (rank IS NOT NULL), []) FROM memgauge.processes),
 (SELECT coalesce(sum(records), 0)::BIGINT FROM memgauge.drops WHERE reason <> 'thinned'),
 (SELECT coalesce(sum(records), 0)::BIGINT FROM memgauge.drops
  WHERE reason IN ('thinned', 'merged', 'disk limit', 'database not writable')),
 (SELECT coalesce(arg_max(run_verdict, judgement), '') FROM memgauge.findings)`

func summarize(ctx context.Context, db *store.DB) (api.Summary, error) {
	rows, err := db.Query(ctx, summarySQL)
	if err != nil {
		return api.Summary{}, fmt.Errorf("sum up: %w", err)
	}
	defer rows.Close()
	if !rows.Next() {
		return api.Summary{}, fmt.Errorf("sum up: %w", rows.Err())
	}
	v := rows.Values()
	return api.Summary{Rows: integer(v[0]), Steps: integer(v[1]), PeakRSS: integer(v[2]), PIDs: integers(v[3]),
		Ranks: integers(v[4]), Lost: integer(v[5]), LeftOut: integer(v[6]), Judged: fmt.Sprint(v[7])}, nil
}

func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func integers(v any) []int {
	list, _ := v.([]any)
	out := make([]int, 0, len(list))
	for _, x := range list {
		out = append(out, int(integer(x)))
	}
	return out
}
