// Package fakesession is a session for tests of what presents one: every answer is a value that a test may set, and
// Live and Finished fill all of them in with one believable job. SQL is answered by a real database with the job's
// rows. It starts no process and asks none.
package fakesession

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Tables answers SQL: package service over a database, or rows that a test makes up.
type Tables interface {
	api.Querier
	Tables(ctx context.Context, all bool) ([]model.Table, error)
}

// Session is an api.Session whose answers are its fields.
type Session struct {
	Job       api.About
	Ending    api.End
	Members   []api.Process
	Rows      Tables
	Figures   api.Summary
	Verdict   string // of Outcome
	Story     []api.Event
	Judgement detect.Report
	Forecast  *monitor.Report
	Held      api.Where
	Counted   api.CensusReply
	Printed   []Output // by what an eval runs, in each process
	Ran       func(api.Process) api.EvalResult
	Stacks    []api.Stacks
	Heaps     map[string]api.BlocksReply // by device
	Pickle    []byte                     // a memory snapshot
	Recorded  func(api.Process) api.Recording
	Fails     map[string]error // instead of an answer, by the name of the question: "Eval"; "": whatever is asked

	mu    sync.Mutex
	asked []string
}

// Output is a piece of what evaluated code prints.
type Output struct {
	Stderr bool
	Text   string
}

var _ api.Session = (*Session)(nil)

// Target is the session as commands find it.
func (s *Session) Target() *ask.Target {
	t := ask.Far(s.Job, -1, func() api.Session { return s })
	return &t
}

// Asked lists the names of the questions so far, in order.
func (s *Session) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// note remembers a question, and returns the error that it is to be answered with.
func (s *Session) note(question string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, question)
	if err := s.Fails[question]; err != nil {
		return err
	}
	return s.Fails[""]
}

func answer[T any](s *Session, question string, with T) (v T, err error) {
	if err := s.note(question); err != nil {
		return v, err
	}
	return with, nil
}

// About implements api.Session, as all below do.
func (s *Session) About(context.Context) (api.About, error) { return answer(s, "About", s.Job) }

// SnapshotFile is the one of Job. That there is none needs no answer.
func (s *Session) SnapshotFile(context.Context) (string, error) {
	if s.Job.Snapshot == nil {
		return "", s.Job.NoSnapshot()
	}
	return answer(s, "SnapshotFile", s.Job.Snapshot.Path)
}

// SourceFile is below the working directory of Job.
func (s *Session) SourceFile(_ context.Context, name string) (string, error) {
	return answer(s, "SourceFile", filepath.Join(s.Job.Cwd, name))
}

// End is Ending.
func (s *Session) End(context.Context) (api.End, error) { return answer(s, "End", s.Ending) }

// Processes are Members.
func (s *Session) Processes(context.Context, api.ProcessesRequest) ([]api.Process, error) {
	return answer(s, "Processes", s.Members)
}

// Query asks Rows.
func (s *Session) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	if err := s.note("Query"); err != nil {
		return err
	}
	return s.Rows.Query(ctx, q, w)
}

// Tables asks Rows.
func (s *Session) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	if err := s.note("Tables"); err != nil {
		return nil, err
	}
	return s.Rows.Tables(ctx, all)
}

// Summary is Figures.
func (s *Session) Summary(context.Context) (api.Summary, error) {
	return answer(s, "Summary", s.Figures)
}

// Outcome is Figures with Verdict.
func (s *Session) Outcome(context.Context) (api.Summary, error) {
	with := s.Figures
	with.Verdict = s.Verdict
	return answer(s, "Outcome", with)
}

// Events tells Story. A live session's goes on until somebody ends it.
func (s *Session) Events(ctx context.Context, q api.EventsRequest, take func(api.Event) error) error {
	if err := s.note("Events"); err != nil {
		return err
	}
	for _, e := range s.Story {
		if !e.Time.After(q.Since) {
			continue
		}
		if err := take(e); err != nil {
			return err
		}
	}
	if q.Follow && s.Ending.Live {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// Leak is Judgement; its findings are the caller's own, who may withdraw some.
func (s *Session) Leak(context.Context, api.LeakRequest) (detect.Report, error) {
	with := s.Judgement
	with.Findings = slices.Clone(with.Findings)
	return answer(s, "Leak", with)
}

// OOM is Forecast.
func (s *Session) OOM(context.Context, api.OOMRequest) (*monitor.Report, error) {
	return answer(s, "OOM", s.Forecast)
}

// Where is Held.
func (s *Session) Where(context.Context) (api.Where, error) { return answer(s, "Where", s.Held) }

// Census is Counted, of the processes that were asked.
func (s *Session) Census(_ context.Context, q api.CensusRequest) (r api.CensusReply, err error) {
	if err := s.note("Census"); err != nil {
		return r, err
	}
	for _, c := range s.Counted.Censuses {
		for _, pid := range q.PIDs {
			if c.PID == pid {
				r.Censuses = append(r.Censuses, c)
			}
		}
	}
	if len(q.PIDs) == 0 {
		return s.Counted, nil
	}
	return r, nil
}

// choose selects live processes as every session does.
func (s *Session) choose(question string, c api.Choice) ([]api.Process, error) {
	if err := s.note(question); err != nil {
		return nil, err
	}
	return api.Choose(s.Members, c, false)
}

// Eval tells of Printed and Ran for each process that was chosen.
func (s *Session) Eval(_ context.Context, q api.EvalRequest, out api.EvalOutput) (r api.EvalReply, err error) {
	chosen, err := s.choose("Eval", q.Choice)
	if err != nil {
		return r, err
	}
	if out.Chosen != nil {
		if err := out.Chosen(chosen); err != nil {
			return r, err
		}
	}
	for i, p := range chosen {
		for _, o := range s.Printed {
			if out.Print == nil {
				continue
			}
			if err := out.Print(i, o.Stderr, []byte(o.Text)); err != nil {
				return r, err
			}
		}
		r.Results = append(r.Results, s.Ran(p))
	}
	return r, nil
}

// Backtrace is those of Stacks whose process was chosen, without what was not asked for.
func (s *Session) Backtrace(_ context.Context, q api.BacktraceRequest) (r api.BacktraceReply, err error) {
	chosen, err := s.choose("Backtrace", q.Choice)
	if err != nil {
		return r, err
	}
	for _, p := range chosen {
		for _, stacks := range s.Stacks {
			if stacks.PID == p.PID {
				r.Processes = append(r.Processes, askedFor(stacks, q))
			}
		}
	}
	if q.Thread != 0 && len(r.Processes[0].Threads) == 0 {
		return r, errors.New("no such thread")
	}
	return r, nil
}

func askedFor(s api.Stacks, q api.BacktraceRequest) api.Stacks {
	all := s.Threads
	s.Threads = nil
	for _, t := range all {
		if q.Thread != 0 && t.TID != q.Thread {
			continue
		}
		t.Frames = slices.Clone(t.Frames)
		for i := range t.Frames {
			if !q.Locals {
				t.Frames[i].Locals = nil
			}
		}
		s.Threads = append(s.Threads, t)
	}
	return s
}

// Blocks is Heaps of the device.
func (s *Session) Blocks(_ context.Context, q api.BlocksRequest) (api.BlocksReply, error) {
	return answer(s, "Blocks", s.Heaps[q.Device])
}

// Snapshot writes Pickle.
func (s *Session) Snapshot(_ context.Context, q api.SnapshotRequest, w io.Writer) (r api.SnapshotReply, err error) {
	chosen, err := s.choose("Snapshot", q.Choice)
	if err != nil {
		return r, err
	}
	r = api.SnapshotReply{Process: chosen[0], Bytes: int64(len(s.Pickle)), History: "yes"}
	if w == nil {
		r.Path = s.Job.Dir + "/snapshot.pickle"
		return r, nil
	}
	_, err = w.Write(s.Pickle)
	return r, err
}

// Record is Recorded of each process that was chosen.
func (s *Session) Record(_ context.Context, q api.RecordRequest) (r api.RecordReply, err error) {
	chosen, err := s.choose("Record", q.Choice)
	if err != nil {
		return r, err
	}
	for _, p := range chosen {
		r.Processes = append(r.Processes, s.Recorded(p))
	}
	return r, nil
}

// Close does nothing: the test that made the session closes its database.
func (s *Session) Close() error { return nil }

// Fail has every question answered with err, or those with these names.
func (s *Session) Fail(err error, questions ...string) *Session {
	if len(questions) == 0 {
		questions = []string{""}
	}
	if s.Fails == nil {
		s.Fails = map[string]error{}
	}
	for _, q := range questions {
		s.Fails[q] = err
	}
	return s
}

// Silence is the error of a session that does not answer.
var Silence = remedy.Add(fmt.Errorf("ask resnet: %w", api.ErrBroken), "memgauge list says whether it is observed")
