package check

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// Selection says which rules apply: those selected (none: all) less those ignored. A name is an id, a rule's name, or
// the beginning of an id: MG1 is all of MG101 to MG199. That a file was not read is told unless it is ignored: to find
// nothing of what was selected would look the same.
type Selection struct {
	Select, Ignore []string
	Unsafe         bool // fixes that are suggestions are made, too
}

// Has reports whether a rule applies.
func (s Selection) Has(r Rule) bool {
	return (len(s.Select) == 0 || r.ID == Unreadable || matches(r, s.Select)) && !matches(r, s.Ignore)
}

// Check refuses names that no rule has.
func (s Selection) Check() error {
	for _, name := range append(append([]string{}, s.Select...), s.Ignore...) {
		known := false
		for _, r := range Rules() {
			known = known || matches(r, []string{name})
		}
		if !known {
			return remedy.Add(fmt.Errorf("there is no rule %q", name), "memgauge check --explain all lists them")
		}
	}
	return nil
}

func matches(r Rule, names []string) bool {
	for _, n := range names {
		n = strings.TrimSpace(n)
		if n == "ALL" || strings.EqualFold(n, r.Name) || n != "" && strings.HasPrefix(r.ID, strings.ToUpper(n)) {
			return true
		}
	}
	return false
}
