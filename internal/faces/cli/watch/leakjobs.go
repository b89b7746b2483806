package watch

import (
	"bytes"
	"context"
	"fmt"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
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

// job is what is known of one job across its sessions.
type job struct {
	Job       string         `json:"job"`
	Verdict   detect.Verdict `json:"verdict"`
	Text      string         `json:"text"`
	FirstNode *string        `json:"first_node"` // where what is wrong began, by steps
	SinceStep *int64         `json:"since_step"`
	Failed    []string       `json:"failed"` // nodes whose session could not be judged
	Each      []rankVerdict  `json:"ranks"`
	Skew      skew.Report    `json:"skew"`
	sessions  []*session
	at        map[skew.Unit]int
}

// rankVerdict is one rank by itself and among its peers.
type rankVerdict struct {
	Rank    int            `json:"rank"`
	Node    string         `json:"node"`
	Session string         `json:"session"`
	Verdict detect.Verdict `json:"verdict"` // of its own memories
	Odd     []skew.Kind    `json:"odd"`     // what sets it apart from its peers
	Memory  *string        `json:"memory"`  // that leaks
	Since   *int64         `json:"since_step"`
	Pace    *float64       `json:"bytes_per_step"`
	Holder  *string        `json:"holder"`
	Site    *string        `json:"site"`
	Advice  []string       `json:"advice"`

	Beyond      *float64 `json:"beyond_peers_bytes"`          // at the end
	BeyondPace  *float64 `json:"beyond_peers_bytes_per_step"` // since BeyondSince
	BeyondSince *int64   `json:"beyond_peers_since_step"`
	Z           *float64 `json:"z"`

	leak *detect.Finding
}

// session is one of a job, with why it could not be judged.
type session = source.Answer[source.Judged]

// compareJobs sorts sessions into jobs and judges their ranks. Sessions of a job stand next to each other.
func compareJobs(list []session) (jobs []*job) {
	for i := range list {
		one := &list[i]
		if len(jobs) == 0 || jobs[len(jobs)-1].Job != one.Job {
			jobs = append(jobs, &job{Job: one.Job, Failed: []string{}, Each: []rankVerdict{}, at: map[skew.Unit]int{}})
		}
		j := jobs[len(jobs)-1]
		j.sessions = append(j.sessions, one)
	}
	for _, j := range jobs {
		j.compare()
	}
	return jobs
}

func (j *job) compare() {
	held := skew.NewHeld()
	for _, s := range j.sessions {
		from := len(held.Ranks)
		if s.Err == nil {
			s.Err = held.Add(s.Node, bytes.NewReader(s.Value.Held))
		}
		if s.Err != nil {
			j.Failed = append(j.Failed, s.Node)
			continue
		}
		for _, u := range held.Ranks[from:] {
			j.at[u] = len(j.Each)
			j.Each = append(j.Each, ownVerdict(u, s))
		}
	}
	j.Skew = held.Judge()
	j.Skew.Ranks = len(held.Ranks)
	j.join()
	j.sum()
	j.Text = j.paragraph()
	order.By(j.Each, func(a, b rankVerdict) int { return a.Rank - b.Rank })
}

// ownVerdict is what a rank's session says of that rank. Memories that say nothing new (a healthy one beside an
// undecided one) don't count.
func ownVerdict(u skew.Unit, s *session) rankVerdict {
	v := rankVerdict{Rank: u.Rank, Node: u.Node, Session: s.About.Name, Verdict: detect.Healthy, Odd: []skew.Kind{},
		Advice: []string{}}
	seen := false
	for i := range s.Value.Report.Findings {
		f := &s.Value.Report.Findings[i]
		if f.Rank != u.Rank {
			continue
		}
		seen = true
		switch {
		case f.Verdict == detect.Leak && v.leak == nil: // the first is the worst
			v.Verdict, v.leak = detect.Leak, f
		case f.Verdict == detect.Undecided && v.Verdict == detect.Healthy:
			v.Verdict = detect.Undecided
		}
	}
	if !seen {
		v.Verdict = detect.Undecided
	}
	if f := v.leak; f != nil {
		name, since := f.Name(), int64(f.Start)
		v.Memory, v.Holder, v.Site = &name, doc.Known(f.Holder), doc.Known(f.Site)
		v.Advice = append(v.Advice, f.Advice...)
		if !f.ByTime {
			v.Since, v.Pace = &since, &f.Rate
		}
	}
	return v
}

// join adds to every rank what sets it apart.
func (j *job) join() {
	for _, s := range j.Skew.Slopes {
		if i, ok := j.at[skew.Unit{Rank: s.Rank, Node: s.Node}]; ok {
			v := &j.Each[i]
			v.Beyond, v.BeyondPace, v.BeyondSince, v.Z = &s.Excess, &s.Pace, &s.Since, &s.Z
		}
	}
	for _, f := range j.Skew.Findings {
		if i, ok := j.at[skew.Unit{Rank: f.Rank, Node: f.Node}]; ok {
			j.Each[i].Odd = append(j.Each[i].Odd, f.Kind)
		}
	}
}

// sum finds the job's verdict, and where and when what is wrong began.
func (j *job) sum() {
	j.Verdict = detect.Healthy
	first := func(node string, step int64) {
		if j.SinceStep == nil || step < *j.SinceStep {
			j.FirstNode, j.SinceStep = &node, &step
		}
	}
	for _, s := range j.sessions {
		switch {
		case s.Err == nil && s.Value.Report.Verdict == detect.Leak:
			j.Verdict = detect.Leak
		case j.Verdict == detect.Healthy && (s.Err != nil || s.Value.Report.Verdict == detect.Undecided):
			j.Verdict = detect.Undecided
		}
	}
	for _, v := range j.Each {
		if v.Since != nil {
			first(v.Node, *v.Since)
		}
	}
	for _, f := range j.Skew.Findings {
		if f.Kind == skew.Leak || f.Kind == skew.HostLeak {
			j.Verdict = detect.Leak
		}
		if j.leakOf(f) == nil { // a rank's own verdict dates it to the step
			first(f.Node, f.Since)
		}
	}
}

// leakOf is the leak that the rank of a finding has by its own session's verdict; nil for none.
func (j *job) leakOf(f skew.Finding) *detect.Finding {
	if i, ok := j.at[skew.Unit{Rank: f.Rank, Node: f.Node}]; ok && (f.Kind == skew.Leak || f.Kind == skew.Step) {
		return j.Each[i].leak
	}
	return nil
}

// code is the exit code of several jobs.
func code(jobs []*job) error {
	found, failed := false, false
	for _, j := range jobs {
		found = found || j.Verdict == detect.Leak || len(j.Skew.Findings) > 0
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
func (a *commands) leakJobsDocument(jobs []*job, list []session) error {
	sessions, err := leakQuestion(true).Documents(ownAnswers(list))
	if err == nil {
		err = doc.WriteJSON(a.Stdout, struct {
			SchemaVersion int              `json:"schema_version"`
			Jobs          []*job           `json:"jobs"`
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
