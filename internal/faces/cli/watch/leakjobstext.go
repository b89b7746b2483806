package watch

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

const (
	shownLeaks = 5 // ranks in the paragraph; beyond them it is not a rank that leaks but the job
	shownRanks = 8 // lines of the table
	shownOwn   = 3 // sessions whose own verdict is printed whole
)

// paragraph says what is wrong with the job, where first, and what to do.
func (j *job) paragraph() string {
	var b strings.Builder
	plain.Fprintf(&b, "%s on %s.", count(len(j.Each), "rank"), count(j.nodes(), "node"))
	said := map[skew.Unit]bool{}
	for i, f := range j.Skew.Findings {
		if i == shownLeaks {
			plain.Fprintf(&b, " And %d more differ from their peers (--json lists them).",
				len(j.Skew.Findings)-shownLeaks)
			break
		}
		b.WriteString(" " + f.Text())
		if own := j.leakOf(f); own != nil {
			b.WriteString(" " + cause(own))
			said[skew.Unit{Rank: f.Rank, Node: f.Node}] = true
		}
	}
	j.alike(&b, said)
	j.unranked(&b)
	switch {
	case j.SinceStep != nil:
		plain.Fprintf(&b, " It began on %s at step %d.", *j.FirstNode, *j.SinceStep)
	case len(j.Skew.Findings) == 0 && j.Verdict == detect.Healthy && len(j.Skew.Slopes) > 0:
		b.WriteString(" No rank leaks, and none differs from its peers at equal steps.")
	case j.Verdict == detect.Healthy:
		b.WriteString(" No rank leaks.")
	case j.Verdict == detect.Undecided:
		b.WriteString(" No leak so far, but not every memory can be judged yet: each session's own line says why.")
	}
	if len(j.Failed) > 0 {
		plain.Fprintf(&b, " Not judged: %s.", app.SomeOf(j.Failed))
	}
	return b.String()
}

// cause says what holds a rank's memory and what to do.
func cause(f *detect.Finding) string {
	var parts []string
	if f.Holder != "" {
		parts = append(parts, "held by "+f.Holder)
	}
	if f.Site != "" {
		parts = append(parts, "created at "+f.Site)
	}
	if len(f.Advice) > 0 {
		parts = append(parts, "to do: "+f.Advice[0])
	}
	if len(parts) == 0 {
		return "What holds it is not known."
	}
	return "It is " + strings.Join(parts, "; ") + "."
}

// alike tells of the ranks that leak without standing out: where all do, none is odd.
func (j *job) alike(b *strings.Builder, said map[skew.Unit]bool) {
	var leaking []*rankVerdict
	for i := range j.Each {
		if v := &j.Each[i]; v.leak != nil && !said[skew.Unit{Rank: v.Rank, Node: v.Node}] {
			leaking = append(leaking, v)
		}
	}
	if len(leaking) == 0 {
		return
	}
	slices.SortStableFunc(leaking, func(a, b *rankVerdict) int { return int(a.leak.Start - b.leak.Start) })
	first, where := leaking[0], []string{}
	for _, v := range leaking {
		where = append(where, fmt.Sprintf("rank %d on %s", v.Rank, v.Node))
	}
	who := "By their own verdict these leak: " + app.SomeOf(where)
	if len(leaking) == len(j.Each) && len(leaking) > 1 {
		who = "All of them leak"
	}
	plain.Fprintf(b, " %s; rank %d: %s %s since %s %.0f. %s", who, first.Rank, first.leak.Name(), first.leak.PerStep(),
		first.leak.Unit(), first.leak.Start, cause(first.leak))
}

// unranked tells of leaks in processes that have no rank: trainings that are not distributed, workers.
func (j *job) unranked(b *strings.Builder) {
	told := 0
	for _, s := range j.sessions {
		at := slices.IndexFunc(s.Value.Report.Findings, func(f detect.Finding) bool {
			_, ranked := j.at[skew.Unit{Rank: f.Rank, Node: s.Node}]
			return f.Verdict == detect.Leak && !ranked
		})
		if at < 0 || told == shownLeaks {
			continue
		}
		told++
		f := &s.Value.Report.Findings[at]
		plain.Fprintf(b, " On %s %s leaks %s since %s %.0f. %s", s.Node, f.Name(), f.PerStep(), f.Unit(), f.Start,
			cause(f))
	}
}

func (j *job) nodes() int {
	seen := map[string]bool{}
	for _, s := range j.sessions {
		seen[s.Node] = true
	}
	return len(seen)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return units.Count(int64(n)) + " " + noun + "s"
}

// leakJobsText prints the paragraph of each job, its steepest ranks, and the sessions' own verdicts, equal ones
// together.
func (a *commands) leakJobsText(jobs []*job, list []session) error {
	out := a.Text()
	for _, j := range jobs {
		plain.Fprintf(out, "%s  job %s: %s\n", strings.ToUpper(string(j.Verdict)), j.Job, j.Text)
		for _, why := range j.Skew.Warnings {
			plain.Fprintf(out, "note  not compared: %s\n", why)
		}
		if err := j.table(out); err != nil {
			return fmt.Errorf("leak: %w", err)
		}
		fmt.Fprintln(out)
	}
	ownVerdicts(out, a.Stderr, list)
	return code(jobs)
}

// table lists the ranks that leak or differ, then the steepest.
func (j *job) table(out io.Writer) error {
	if len(j.Each) == 0 {
		return nil
	}
	worst := slices.Clone(j.Each)
	weight := func(v rankVerdict) float64 {
		w := 0.0
		if v.Verdict == detect.Leak || len(v.Odd) > 0 {
			w = 1e18 // beyond any slope
		}
		if v.BeyondPace != nil {
			w += *v.BeyondPace
		}
		return w
	}
	order.Stable(worst, func(a, b rankVerdict) int {
		switch x, y := weight(a), weight(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RANK\tNODE\tVERDICT\tODD\tA STEP, BEYOND PEERS\tSINCE STEP\tBY NOW\tZ")
	for _, v := range worst[:min(len(worst), shownRanks)] {
		odd := make([]string, len(v.Odd))
		for i, kind := range v.Odd {
			odd[i] = string(kind)
		}
		plain.Fprintf(t, "%d\t%s\t%s\t%s", v.Rank, v.Node, v.Verdict, strings.Join(odd, ", "))
		if v.Beyond != nil {
			plain.Fprintf(t, "\t%s\t%d\t%s\t%.1f", signed(*v.BeyondPace), *v.BeyondSince, signed(*v.Beyond), *v.Z)
		}
		fmt.Fprintln(t)
	}
	if more := len(worst) - shownRanks; more > 0 {
		plain.Fprintf(t, "and %s more\n", units.Count(int64(more)))
	}
	return t.Flush()
}

func signed(n float64) string {
	if n < 0 {
		return "-" + units.Bytes(-n).String()
	}
	return units.Bytes(n).String()
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
			count(more, "more group"))
	}
}

// failed stands for the verdict on a session that could not be judged.
const failed = "failed"
