package repair

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/evidence"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/check"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// plan is what is known about a session's leaks, and what to do about them.
type plan struct {
	about   api.About
	job     evidence.Job
	report  detect.Report
	steps   int64 // by which the leak was first seen
	peaks   []questions.Highest
	changes []change
	files   []changed
	tried   *tried
	applied []applied
}

// change is what to do about one leak, or why nothing is known.
type change struct {
	leak     detect.Finding
	proposal evidence.Proposal
	none     error
}

// changed is a file as it is and as it would be.
type changed struct {
	path, short   string
	before, after []byte
}

// applied is a file that was written.
type applied struct {
	Path   string `json:"path"`
	Before string `json:"before"` // where the text before lies
}

func newPlan(about api.About, report detect.Report) *plan {
	p := &plan{about: about, report: report,
		job: evidence.Job{Cwd: about.Cwd, Command: about.Command, Started: about.Started}}
	for _, f := range leaks(report) {
		c := change{leak: f}
		c.proposal, c.none = evidence.Propose(f, p.job)
		p.changes = append(p.changes, c)
	}
	p.merge()
	return p
}

// leaks are the leaks of a report for which somebody or something is named; all of them, where that is so for none. The
// others are the same growth, seen by another count.
func leaks(r detect.Report) (list []detect.Finding) {
	named := func(f detect.Finding) bool { return f.Holder != "" || f.Site != "" }
	any := slices.ContainsFunc(r.Findings, func(f detect.Finding) bool { return f.Verdict == detect.Leak && named(f) })
	seen := map[string]bool{}
	for _, f := range r.Findings {
		key := f.Holder + "\n" + f.Site
		if f.Verdict == detect.Leak && (named(f) || !any) && !seen[key] {
			seen[key] = true
			list = append(list, f)
		}
	}
	return list
}

// merge makes one new text of each file that changes. Of changes that touch each other the first is made.
func (p *plan) merge() {
	edits := map[string][]check.Edit{}
	for i := range p.changes {
		c := &p.changes[i]
		if c.none != nil {
			continue
		}
		at := slices.IndexFunc(p.files, func(f changed) bool { return f.path == c.proposal.Path })
		if at < 0 {
			at = len(p.files)
			p.files = append(p.files, changed{path: c.proposal.Path, short: c.proposal.Short, before: c.proposal.Text})
		}
		f := &p.files[at]
		fresh := slices.DeleteFunc(slices.Clone(c.proposal.Edits), func(e check.Edit) bool {
			return slices.Contains(edits[f.path], e)
		})
		all := append(slices.Clone(edits[f.path]), fresh...)
		if touch(all) {
			continue
		}
		if after, ok := check.Changed(f.before, all); ok {
			f.after, edits[f.path] = after, all
		}
	}
	p.files = slices.DeleteFunc(p.files, func(f changed) bool { return f.after == nil })
}

func touch(edits []check.Edit) bool {
	for i, a := range edits {
		for _, b := range edits[:i] {
			if a.Start <= b.End && b.Start <= a.End {
				return true
			}
		}
	}
	return false
}

// sure reports whether results stay the same for sure with all changes.
func (p *plan) sure() bool {
	return !slices.ContainsFunc(p.changes, func(c change) bool { return c.none == nil && !c.proposal.Sure() })
}

// all reports whether there is a change for every leak.
func (p *plan) all() bool {
	return !slices.ContainsFunc(p.changes, func(c change) bool { return c.none != nil })
}

// text is the plan for people: what to do, and the diff as patch(1) takes it.
func (p *plan) text() string {
	var b strings.Builder
	switch p.report.Verdict {
	case detect.Healthy:
		plain.Fprintf(&b, "%s: nothing to mend\n", p.report.Line())
		return b.String()
	case detect.Undecided:
		plain.Fprintf(&b, "%s: nothing to mend by now\n", p.report.Line())
		return b.String()
	}
	for _, c := range p.changes {
		c.tell(&b)
	}
	b.WriteString(plain.Text(p.diff()))
	if p.tried != nil {
		plain.Fprintf(&b, "%s\n", p.tried.text())
	}
	for _, w := range p.applied {
		plain.Fprintf(&b, "written: %s; undo: mv %s %s\n", w.Path, w.Before, w.Path)
	}
	return b.String()
}

// diff is what changes, in all files.
func (p *plan) diff() string {
	var b strings.Builder
	for _, f := range p.files {
		b.WriteString(check.Headless(check.Diff(f.short, f.before, f.after)))
	}
	return b.String()
}

func (c change) tell(b *strings.Builder) {
	f := c.leak
	plain.Fprintf(b, "LEAK  %s %s", f.Name(), f.PerStep())
	if f.Holder != "" {
		plain.Fprintf(b, ", held by %s", f.Holder)
	}
	b.WriteString("\n")
	line := func(name, text string) {
		if text != "" {
			plain.Fprintf(b, "  %-9s %s\n", name, text)
		}
	}
	if c.none != nil {
		line("no change", c.none.Error())
		for i, advice := range f.Advice {
			line(map[bool]string{true: "do", false: "or"}[i == 0], advice)
		}
		if line("hint", remedy.Of(c.none)); errors.Is(c.none, evidence.ErrNoRemedy) {
			line("hint", "memgauge fix --prompt has the evidence and the code for an assistant")
		}
		return
	}
	rule := ""
	if c.proposal.Rule != "" {
		rule = " (" + c.proposal.Rule + ")"
	}
	line("change", fmt.Sprintf("%s:%d: %s%s", c.proposal.Short, c.proposal.Line, c.proposal.What, rule))
	if c.proposal.Look != "" {
		line("look", c.proposal.Look+" (a suggestion)")
	}
}

// The JSON of memgauge fix; docs/cli-json.md describes every member.
type fixDocument struct {
	SchemaVersion int            `json:"schema_version"`
	Session       string         `json:"session"`
	Verdict       detect.Verdict `json:"verdict"`
	Changes       []changeJSON   `json:"changes"`
	Diff          *string        `json:"diff"`
	Tried         *tried         `json:"tried"`
	Applied       []applied      `json:"applied"`
}

type changeJSON struct {
	Memory string  `json:"memory"`
	Class  *string `json:"class"`
	Holder *string `json:"holder"`
	Site   *string `json:"site"`
	Path   *string `json:"path"`
	Line   *int    `json:"line"`
	What   *string `json:"what"`
	Sure   bool    `json:"sure"`
	Look   *string `json:"look"`
	Rule   *string `json:"rule"`
	Why    *string `json:"no_change"` // why there is none
}

func (p *plan) document() fixDocument {
	d := fixDocument{SchemaVersion: doc.JSONVersion, Session: p.about.Name, Verdict: p.report.Verdict,
		Changes: []changeJSON{}, Tried: p.tried, Applied: append([]applied{}, p.applied...)}
	for _, c := range p.changes {
		j := changeJSON{Memory: c.leak.Name(), Class: doc.Known(string(c.leak.Class)), Holder: doc.Known(c.leak.Holder),
			Site: doc.Known(c.leak.Site)}
		if c.none != nil {
			j.Why = doc.Known(c.none.Error())
		} else {
			x := c.proposal
			j.Path, j.Line, j.What, j.Sure = &x.Path, &x.Line, &x.What, x.Sure()
			j.Look, j.Rule = doc.Known(x.Look), doc.Known(x.Rule)
		}
		d.Changes = append(d.Changes, j)
	}
	d.Diff = doc.Known(p.diff())
	return d
}

// fixPrompt prints what an assistant needs to mend the leaks.
func (a *commands) fixPrompt(p *plan) error {
	if p.report.Verdict != detect.Leak {
		fmt.Fprint(a.Text(), p.text())
		return nil
	}
	for _, c := range p.changes {
		text := evidence.Prompt(c.leak, p.job)
		if _, err := fmt.Fprint(a.Text(), text); err != nil {
			return fmt.Errorf("fix: %w", err)
		}
	}
	return app.Exit(app.ExitFindings, nil)
}
