package check

import (
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

var (
	// pragma is a comment that silences findings of its line: # memgauge: ignore[MG101] reason.
	pragma = pattern.Of(`#\s*memgauge:\s*ignore\[([^\]\n]*)\]\s*([^\n]*)`)
	// noqa is the comment that other checkers read: # noqa silences all of a line, # noqa: MG101, E501 some rules.
	noqa   = pattern.Of(`(?i)#\s*noqa\b(\s*:\s*((?:[A-Z]+[0-9]+[,\s]*)+))?`)
	ourIDs = pattern.Of(`(?i)\bMG[0-9]+\b`)
)

// silencer is what one comment silences.
type silencer struct {
	at       node
	line     int
	all      bool     // whatever stands in its line
	ids      []string // of rules
	unknown  []string // names that no rule has
	used     map[string]bool
	noReason bool
	alone    bool // it may stand above its line
}

// silencers are the file's comments that silence something, in the order of the text.
func (f *file) silencers() (list []*silencer) {
	for _, n := range f.comments {
		text := f.span(n.start(), n.end())
		s := &silencer{at: n, used: map[string]bool{}}
		var names []string
		if m := pragma().FindStringSubmatch(text); m != nil {
			names = strings.FieldsFunc(m[1][:min(len(m[1]), maxLine)], func(r rune) bool {
				return r == ',' ||
					r == ' '
			})
			s.noReason, s.alone = m[2] == "", true
		} else if m := noqa().FindStringSubmatch(text); m != nil {
			names = ourIDs().FindAllString(m[2], -1)
			if s.all = m[1] == ""; !s.all && len(names) == 0 {
				continue // other checkers' codes
			}
		} else {
			continue
		}
		s.line = f.src.line(n.start())
		for _, name := range names {
			if r, ok := Find(name); ok {
				s.ids = append(s.ids, r.ID)
			} else {
				s.unknown = append(s.unknown, name)
			}
		}
		list = append(list, s)
	}
	return list
}

// silence takes out what comments silence. It tells those that give no reason and, where the whole file was read, those
// that silence nothing.
func (f *file) silence(found []Finding, rules Selection, whole bool) []Finding {
	list := f.silencers()
	if len(list) == 0 {
		return found
	}
	byLine := map[int][]*silencer{}
	for _, s := range list {
		byLine[s.line] = append(byLine[s.line], s)
	}
	found = slices.DeleteFunc(found, func(one Finding) bool { return f.silenced(byLine, one) })
	noReason, _ := Find(NoReason)
	unused, _ := Find(Unused)
	told := reporter{f: f, rule: noReason, seen: map[int]bool{}, room: maxFindings}
	idle := reporter{f: f, rule: unused, seen: map[int]bool{}, room: maxFindings}
	for _, s := range list {
		if s.noReason && rules.Has(noReason) && len(told.list) < told.room {
			told.report(s.at, "a finding is silenced without a reason",
				"write it behind the bracket: # memgauge: ignore["+strings.Join(s.ids, ", ")+"] why it is no leak")
		}
		what := s.idle(rules)
		if whole && what != "" && rules.Has(unused) && len(idle.list) < idle.room {
			idle.report(s.at, what, "take it out; memgauge check --explain all lists the rules")
		}
	}
	return append(append(found, told.list...), idle.list...)
}

// idle says what of a comment is of no use; "" nothing.
func (s *silencer) idle(rules Selection) string {
	var out []string
	for _, name := range s.unknown {
		out = append(out, "there is no rule "+clip(name))
	}
	for _, id := range s.ids {
		if r, _ := Find(id); !s.used[id] && rules.Has(r) {
			out = append(out, id+" silences nothing here")
		}
	}
	return strings.Join(out, "; ")
}

// silenced reports whether a comment speaks of a finding: it stands in one of the finding's lines, or alone above them.
func (f *file) silenced(byLine map[int][]*silencer, one Finding) (silent bool) {
	first := f.src.line(one.at)
	last := min(first+one.EndLine-one.Line, first+maxLines)
	speaks := func(s *silencer) bool {
		if id := one.Rule.ID; s.all || slices.Contains(s.ids, id) {
			s.used[id] = true
			return true
		}
		return false
	}
	if strings.HasPrefix(strings.TrimSpace(f.src.lineAt(first-1)), "#") {
		for _, s := range byLine[first-1] {
			silent = silent || s.alone && speaks(s)
		}
	}
	for line := first; line <= last; line++ {
		f.spend(1)
		for _, s := range byLine[line] {
			silent = speaks(s) || silent
		}
	}
	return silent
}
