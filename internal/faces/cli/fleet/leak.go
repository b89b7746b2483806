package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/watch"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// judged is what one session said of itself, and what its ranks held.
type judged struct {
	fanout.Session
	report detect.Report
	held   []byte // the answer to fanout.Ranks
	end    api.End
	err    error
}

// comparesRanks says whether the command line is a plain leak, which is asked with one message to all nodes. With flags
// that watch or select, every session is asked for itself.
func (q *question) comparesRanks() bool {
	if q.c.Name() != "leak" {
		return false
	}
	plain := true
	q.given(func(f *pflag.Flag) { plain = plain && f.Name == "json" })
	return plain
}

// leak judges the jobs of a selection: every session by itself, and their ranks against each other.
func (q *question) leak(ctx context.Context, asker *fanout.Asker) error {
	list, missing, err := q.leakLive(ctx, asker)
	if err == nil && len(list) == 0 && !slices.ContainsFunc(missing, fanout.Missing.Late) {
		// as on one machine: what is over can be asked where nothing lives
		list, missing, err = q.leakOver(ctx, asker)
	}
	if err != nil {
		return fmt.Errorf("leak: %w", err)
	}
	q.tell(missing)
	if len(list) == 0 {
		return q.strictly(missing, q.answer(ctx, asker, nil, missing))
	}
	jobs := compareJobs(list)
	if q.says("json") {
		err = q.leakDocument(jobs, list, missing)
	} else {
		err = q.leakText(jobs, list)
	}
	return q.strictly(missing, err)
}

// leakLive asks all nodes at once; two messages, whatever their number.
func (q *question) leakLive(ctx context.Context, asker *fanout.Asker) (list []*judged, missing []fanout.Missing,
	err error) {
	var reports, held []fanout.Answer
	var heldErr error
	var both sync.WaitGroup
	both.Go(func() { held, _, heldErr = asker.All(ctx, q.sel, fanout.Ranks()) })
	reports, missing, err = asker.All(ctx, q.sel, fanout.Leak())
	both.Wait()
	if err != nil {
		return nil, nil, err
	}
	if heldErr != nil {
		return nil, nil, heldErr
	}
	ranks := map[string]fanout.Answer{} // by node and session
	for _, a := range held {
		ranks[a.Session.Node+"/"+a.Session.About.ID] = a
	}
	fanout.Sort(reports)
	list = make([]*judged, len(reports))
	var decode errgroup.Group
	decode.SetLimit(runtime.NumCPU())
	for i, a := range reports {
		decode.Go(func() error {
			one := &judged{Session: a.Session, err: a.Err}
			if one.err == nil {
				one.err = json.Unmarshal(a.Data, &one.report)
			}
			of := ranks[a.Session.Node+"/"+a.Session.About.ID]
			if one.held = of.Data; one.err == nil {
				one.err = of.Err
			}
			list[i] = one
			return nil
		})
	}
	return list, missing, decode.Wait()
}

// leakOver asks the newest finished session of each node and job.
func (q *question) leakOver(ctx context.Context, asker *fanout.Asker) (list []*judged, missing []fanout.Missing,
	err error) {
	q.sel.Finished = true
	over, missing, err := asker.Sessions(ctx, q.sel)
	if err != nil {
		return nil, nil, err
	}
	over = newest(over)
	list = make([]*judged, len(over))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, s := range over {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			list[i] = judgeOne(ctx, asker, s)
		})
	}
	all.Wait()
	return list, missing, nil
}

func judgeOne(ctx context.Context, asker *fanout.Asker, s fanout.Session) *judged {
	door := asker.Open(s)
	defer door.Close()
	one := &judged{Session: s}
	if one.report, one.err = door.Leak(ctx, api.LeakRequest{}); one.err != nil {
		return one
	}
	one.end, _ = door.End(ctx) // without it the report has no end
	var held strings.Builder
	one.err = door.Query(ctx, fanout.Ranks().Body.(api.QueryRequest), &atMost{&held, maxAnswer})
	one.held = []byte(held.String())
	return one
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
	sessions  []*judged
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

// compareJobs sorts sessions into jobs and judges their ranks. Sessions of a job stand next to each other.
func compareJobs(list []*judged) (jobs []*job) {
	for _, one := range list {
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
		if s.err == nil {
			s.err = held.Add(s.Node, bytes.NewReader(s.held))
		}
		if s.err != nil {
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
	slices.SortFunc(j.Each, func(a, b rankVerdict) int { return a.Rank - b.Rank })
}

// ownVerdict is what a rank's session says of that rank. Memories that say nothing new (a healthy one beside an
// undecided one) don't count.
func ownVerdict(u skew.Unit, s *judged) rankVerdict {
	v := rankVerdict{Rank: u.Rank, Node: u.Node, Session: s.About.Name, Verdict: detect.Healthy, Odd: []skew.Kind{},
		Advice: []string{}}
	seen := false
	for i := range s.report.Findings {
		f := &s.report.Findings[i]
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
		case s.err == nil && s.report.Verdict == detect.Leak:
			j.Verdict = detect.Leak
		case j.Verdict == detect.Healthy && (s.err != nil || s.report.Verdict == detect.Undecided):
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

// leakDocument is one document: the jobs, and as for every command asked of many, each session's own.
func (q *question) leakDocument(jobs []*job, list []*judged, missing []fanout.Missing) error {
	sessions := []answerJSON{}
	for _, s := range list {
		one := answerJSON{Job: s.Job, Node: s.Node, Session: s.About.ID, Name: s.About.Name,
			Ranks: append([]int{}, s.Ranks...), Answer: json.RawMessage("null")}
		switch {
		case s.err != nil:
			one.ExitCode, one.Error = app.ExitFailed, s.err.Error()
		default:
			text, err := watch.LeakDocument(s.report, s.About, s.end)
			if err != nil {
				return fmt.Errorf("leak: %w", err)
			}
			if one.Answer = text; s.report.Verdict == detect.Leak {
				one.ExitCode = app.ExitFindings
			}
		}
		sessions = append(sessions, one)
	}
	err := doc.WriteJSON(q.Stdout, struct {
		SchemaVersion int              `json:"schema_version"`
		Jobs          []*job           `json:"jobs"`
		Sessions      []answerJSON     `json:"sessions"`
		Missing       []fanout.Missing `json:"missing"`
	}{doc.JSONVersion, jobs, sessions, append([]fanout.Missing{}, missing...)})
	if err != nil {
		return fmt.Errorf("leak: %w", err)
	}
	return code(jobs)
}
