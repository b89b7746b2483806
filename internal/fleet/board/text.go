package board

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

const (
	shownLeaks = 5 // ranks in the paragraph; beyond them it is not a rank that leaks but the job
	shownRanks = 8 // lines of the table
	shownNames = 8 // of nodes and ranks in a list
)

// paragraph says what is wrong with the job, where first, and what to do.
func (j *Job) paragraph() string {
	var b strings.Builder
	plain.Fprintf(&b, "%s on %s.", doc.Plural(len(j.Each), "rank"), doc.Plural(j.nodes(), "node"))
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
		plain.Fprintf(&b, " Not judged: %s.", doc.SomeOf(j.Failed, shownNames))
	}
	return b.String()
}

// cause says what holds a rank's memory and what to do.
func cause(f *model.Finding) string {
	var parts []string
	if f.Holder != "" {
		parts = append(parts, "held by "+string(f.Holder))
	}
	if f.Site != "" {
		parts = append(parts, "created at "+string(f.Site))
	}
	if advice := f.Advice.List(); len(advice) > 0 {
		parts = append(parts, "to do: "+advice[0])
	}
	if len(parts) == 0 {
		return "What holds it is not known."
	}
	return "It is " + strings.Join(parts, "; ") + "."
}

// alike tells of the ranks that leak without standing out: where all do, none is odd.
func (j *Job) alike(b *strings.Builder, said map[skew.Unit]bool) {
	var leaking []*Rank
	for i := range j.Each {
		if v := &j.Each[i]; v.leak != nil && !said[skew.Unit{Rank: v.Rank, Node: v.Node}] {
			leaking = append(leaking, v)
		}
	}
	if len(leaking) == 0 {
		return
	}
	slices.SortStableFunc(leaking, func(a, b *Rank) int { return cmp.Compare(begun(a.leak), begun(b.leak)) })
	first, where := leaking[0], []string{}
	for _, v := range leaking {
		where = append(where, fmt.Sprintf("rank %d on %s", v.Rank, v.Node))
	}
	who := "By their own verdict these leak: " + doc.SomeOf(where, shownNames)
	if len(leaking) == len(j.Each) && len(leaking) > 1 {
		who = "All of them leak"
	}
	plain.Fprintf(b, " %s; rank %d: %s %s since %s %d. %s", who, first.Rank, first.leak.Name, detect.Pace(*first.leak),
		first.leak.Unit, begun(first.leak), cause(first.leak))
}

// unranked tells of leaks in processes that have no rank: trainings that are not distributed, workers.
func (j *Job) unranked(b *strings.Builder) {
	told := 0
	for _, s := range j.told {
		at := slices.IndexFunc(s.Findings, func(f model.Finding) bool {
			_, ranked := j.at[skew.Unit{Rank: int(f.Rank), Node: s.Node}]
			return f.Verdict == string(detect.Leak) && !ranked
		})
		if at < 0 || told == shownLeaks {
			continue
		}
		told++
		f := &s.Findings[at]
		plain.Fprintf(b, " On %s %s leaks %s since %s %d. %s", s.Node, f.Name, detect.Pace(*f), f.Unit, begun(f),
			cause(f))
	}
}

func (j *Job) nodes() int {
	seen := map[string]bool{}
	for _, s := range j.told {
		seen[s.Node] = true
	}
	return len(seen)
}

// Table lists the ranks that leak or differ, then the steepest.
func (j *Job) Table(out io.Writer) error {
	if len(j.Each) == 0 {
		return nil
	}
	worst := j.worst()
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
	if more := max(len(worst), j.Skew.Ranks) - shownRanks; more > 0 {
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

// worst are the ranks, those that leak or differ first and then the steepest.
func (j *Job) worst() []Rank {
	worst := slices.Clone(j.Each)
	weight := func(v Rank) float64 {
		w := 0.0
		if v.Verdict == detect.Leak || len(v.Odd) > 0 {
			w = 1e18 // beyond any slope
		}
		if v.BeyondPace != nil {
			w += *v.BeyondPace
		}
		return w
	}
	order.Stable(worst, func(a, b Rank) int {
		switch x, y := weight(a), weight(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return worst
}
