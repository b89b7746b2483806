package watch

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/board"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// comparesJobs says whether the ranks of a fleet's jobs are compared, which all nodes are asked for with one message.
// With flags that watch or select, and where node= or rank= does, sessions are asked for themselves.
func (a *commands) comparesJobs(o leakOptions) (bool, error) {
	s, err := a.Source()
	if err != nil {
		return false, err
	}
	return s.Need(source.Ranks) == nil && o.plain() && s.Select.Rank == nil && s.Select.Node == "", nil
}

// leakJobs judges the jobs of a fleet: every session by itself, and their ranks against each other.
func (a *commands) leakJobs(ctx context.Context, o leakOptions) error {
	s, err := a.Source()
	if err != nil {
		return err
	}
	if !o.json && !a.Hub.Live {
		if told, err := a.leakJudged(ctx, s); told || err != nil {
			return err
		}
	}
	list, missing, err := s.Judge(ctx)
	if err == nil {
		a.Miss(missing)
		if len(list) == 0 {
			err = source.ErrNobody
		}
	}
	if err != nil {
		return fmt.Errorf("leak: %w", err)
	}
	jobs := compareJobs(list)
	if o.json {
		return a.leakJobsDocument(jobs, list)
	}
	return a.leakJobsText(jobs, list)
}

// leakJudged prints what the hub itself says, in one question, and says whether it knows enough: of a job that began
// before the hub did, or less than two minutes ago, the sessions must be asked.
func (a *commands) leakJudged(ctx context.Context, s *source.Source) (told bool, err error) {
	j, err := s.Fleet.Judged(ctx, s.Select.Job)
	if err != nil || len(j.Lacking) > 0 || len(j.Jobs) == 0 { // an older hub does not know the question
		return false, nil
	}
	a.Miss(j.Missing)
	now := time.Now()
	plain.Fprintf(a.Stderr, "memgauge: the hub's verdict, made %s of rows from %s; --live asks the sessions\n",
		units.Age(j.At, now), units.Age(j.Rows, now))
	if err := a.jobsText(j.Jobs); err != nil {
		return true, err
	}
	return true, code(j.Jobs)
}

// session is one of a job, with why it could not be judged.
type session = source.Answer[source.Judged]

// compareJobs sorts sessions into jobs and judges their ranks. Sessions of a job stand next to each other.
func compareJobs(list []session) (jobs []*board.Job) {
	for from := 0; from < len(list); {
		var of []*session
		name := list[from].Job
		for ; from < len(list) && list[from].Job == name; from++ {
			of = append(of, &list[from])
		}
		jobs = append(jobs, judgedJob(name, of))
	}
	return jobs
}

// judgedJob is the verdict on a job: its sessions by themselves, and their ranks against each other.
func judgedJob(name string, list []*session) *board.Job {
	held, told := skew.NewHeld(), make([]board.Told, len(list))
	for i, s := range list {
		from := len(held.Ranks)
		if s.Err == nil {
			s.Err = held.Add(s.Node, bytes.NewReader(s.Value.Held))
		}
		told[i] = board.Told{Node: s.Node, Session: s.About.Name, Verdict: s.Value.Report.Verdict,
			Findings: s.Value.Report.Documents(), Ranks: held.Ranks[from:], Err: s.Err}
	}
	return board.Of(name, told, held.Judge())
}

// code is the exit code of several jobs.
func code(jobs []*board.Job) error {
	found, failed := false, false
	for _, j := range jobs {
		found = found || j.Found()
		failed = failed || len(j.Failed) > 0
	}
	switch {
	case failed:
		return app.Exit(app.ExitFailed, nil)
	case found:
		return app.Exit(app.ExitFindings, nil)
	}
	return nil
}

// leakJobsDocument is one document: the jobs, and as for every command asked of many, each session's own.
func (a *commands) leakJobsDocument(jobs []*board.Job, list []session) error {
	sessions, err := leakQuestion(true).Documents(ownAnswers(list))
	if err == nil {
		err = doc.WriteJSON(a.Stdout, struct {
			SchemaVersion int              `json:"schema_version"`
			Jobs          []*board.Job     `json:"jobs"`
			Sessions      []app.AnswerJSON `json:"sessions"`
			Missing       []fanout.Missing `json:"missing"`
		}{doc.JSONVersion, jobs, sessions, a.Missing()})
	}
	if err != nil {
		return fmt.Errorf("leak: %w", err)
	}
	return code(jobs)
}

// ownAnswers are what sessions say of themselves.
func ownAnswers(list []session) (out []source.Answer[judged]) {
	for _, s := range list {
		out = append(out, source.Answer[judged]{Member: s.Member, Err: s.Err,
			Value: judged{s.Value.Report, []detect.Peak{}, contextOf(s.About, s.Value.End.Ended)}})
	}
	return out
}
