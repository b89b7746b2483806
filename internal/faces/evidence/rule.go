package evidence

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/check"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Match is the finding in the code that explains a leak.
type Match struct {
	check.Finding
	Alone bool   // no census saw what holds the memory: the code is all that says so
	Diff  string // of its fix; "" where none is sure to keep results
}

// keeps are the rules, beside MG101 to MG127, about code that keeps ever more: what they find may be a leak's cause
// though no census saw a holder, since C keeps it (a profiler), or each step makes it anew (a table).
var keeps = []string{"MG202", "MG205", "MG206", "MG207", "MG208", "MG209", "MG301", "MG303"}

func keepsMore(rule string) bool {
	return rule >= "MG101" && rule <= "MG127" || slices.Contains(keeps, rule)
}

// Explain looks in the file that a leak names for a rule that its place matches; where nothing is named, in the script
// that was run for one about code that keeps ever more. A file that isn't here, or has changed since the session began,
// explains nothing: its lines may be others.
func Explain(l detect.Finding, cwd string, command []string, started time.Time) (Match, bool) {
	if l.Verdict != detect.Leak {
		return Match{}, false
	}
	alone := l.Site == "" && l.Holder == "" && l.Device == ""
	if l.Site = placed(l.Site, l.Holder, command); alone {
		l.Site = script(command)
	}
	file, _ := splitSite(l.Site)
	if file == "" {
		return Match{}, false
	}
	file = absolute(file, cwd)
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.ModTime().After(started) {
		return Match{}, false
	}
	found, data := check.Read(file, ofCode)
	best := -1
	for i, f := range found {
		if !explains(f, l, cwd, alone) {
			continue
		}
		if best < 0 || rank(f.Rule.Severity) < rank(found[best].Rule.Severity) {
			best = i
		}
	}
	if best < 0 {
		return Match{}, false
	}
	m := Match{Finding: found[best], Alone: alone}
	if after, n := check.Apply(data, found[best:best+1]); n > 0 {
		m.Diff = check.Diff(short(file, cwd), data, after)
	}
	m.Path = short(file, cwd)
	return m, true
}

// ofCode selects what check finds in the code, and not about the file or its comments.
var ofCode = check.Selection{Ignore: []string{check.Unreadable, check.NoReason}}

// explains reports whether a finding in the code may be a leak's cause: it matches the leak's place, or, where nothing
// is named, is about code that keeps ever more.
func explains(f check.Finding, l detect.Finding, cwd string, alone bool) bool {
	if alone {
		return keepsMore(f.Rule.ID)
	}
	return matches(f, l.Site, l.Holder, cwd)
}

// absolute is in full a path as seen from the command's directory.
func absolute(file, cwd string) string {
	if path.IsAbs(file) {
		return file
	}
	return path.Join(cwd, file)
}

func rank(s check.Severity) int {
	return strings.Index("error warning note", string(s))
}

// short is a path as seen from the command's directory.
func short(file, cwd string) string {
	return strings.TrimPrefix(file, strings.TrimSuffix(cwd, "/")+"/")
}

// String describes the measurements for people.
func (m Measured) String() string {
	var parts []string
	if m.Bytes > 0 {
		held := "this line holds " + units.Bytes(m.Bytes).String()
		if m.Count > 1 && m.PerStep == 0 { // a census is older than the end of the growth
			held += fmt.Sprintf(" in %d items", m.Count)
		}
		parts = append(parts, held)
	}
	if m.PerStep > 0 {
		parts = append(parts, fmt.Sprintf("+%s a %s since %s %d (%s)", units.Bytes(m.PerStep).String(), m.Unit,
			m.Unit, m.Since, m.Leak))
	}
	return strings.Join(parts, ", ")
}
