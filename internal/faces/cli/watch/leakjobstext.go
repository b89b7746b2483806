package watch

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/board"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

const shownOwn = 3 // sessions whose own verdict is printed whole

// leakJobsText prints the jobs, and the sessions' own verdicts, equal ones together.
func (a *commands) leakJobsText(jobs []*board.Job, list []session) error {
	if err := a.jobsText(jobs); err != nil {
		return err
	}
	ownVerdicts(a.Text(), a.Stderr, list)
	return code(jobs)
}

// jobsText prints the paragraph of each job and its steepest ranks.
func (a *commands) jobsText(jobs []*board.Job) error {
	out := a.Text()
	for _, j := range jobs {
		plain.Fprintf(out, "%s  job %s: %s\n", strings.ToUpper(string(j.Verdict)), j.Job, j.Text)
		for _, why := range j.Skew.Warnings {
			plain.Fprintf(out, "note  not compared: %s\n", why)
		}
		if err := j.Table(out); err != nil {
			return fmt.Errorf("leak: %w", err)
		}
		fmt.Fprintln(out)
	}
	return nil
}

// ownVerdicts prints what sessions say of themselves: those with a leak first, and those that say the same together.
func ownVerdicts(out, stderr io.Writer, list []session) {
	type group struct {
		verdict string
		text    string
		of      []fanout.Session
	}
	groups := []*group{}
	for _, s := range ownAnswers(list) {
		one := group{verdict: string(s.Value.report.Verdict)}
		switch {
		case s.Err != nil:
			one.verdict = failed
			plain.Fprintf(stderr, "memgauge: node %s: %v\n", s.Node, s.Err)
		case s.Value.report.Verdict != detect.Healthy:
			one.text = leakText(s.Value.report, s.Value.of)
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.verdict == one.verdict && g.text == one.text })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &one)
		}
		groups[at].of = append(groups[at].of, s.Session)
	}
	worst := []string{failed, string(detect.Leak), string(detect.Undecided), string(detect.Healthy)}
	slices.SortStableFunc(groups, func(a, b *group) int {
		return slices.Index(worst, a.verdict) - slices.Index(worst, b.verdict)
	})
	shown := 0
	for _, g := range groups {
		switch g.verdict {
		case string(detect.Healthy):
			fmt.Fprintf(out, "%s\nhealthy\n\n", app.Title(g.of))
			continue
		case failed:
			fmt.Fprintf(out, "%s\nnot judged\n\n", app.Title(g.of))
			continue
		}
		if shown++; shown <= shownOwn {
			fmt.Fprintf(out, "%s\n%s\n", app.Title(g.of), g.text)
		}
	}
	if more := shown - shownOwn; more > 0 {
		plain.Fprintf(out, "%s with verdicts of their own: node=NAME asks one, --json has all\n",
			doc.Plural(more, "more group"))
	}
}

// failed stands for the verdict on a session that could not be judged.
const failed = "failed"
