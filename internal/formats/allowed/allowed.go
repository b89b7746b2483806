// Package allowed owns the reviewed list of DuckDB's functions, views and pragmas: which a question may name, and why
// not the others. What holds questions to it is package store's; who completes names has them from here.
package allowed

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

//go:embed functions.txt
var text string

// Place is where a name stands in a statement. The same name may be harmless in one place and not in another: the table
// macro histogram takes the name of a table as text, the aggregate doesn't.
type Place string

// The places.
const (
	Expression Place = "expression" // scalar functions, aggregates, window functions, macros, operators
	From       Place = "table"      // table functions and table macros
	View       Place = "view"       // DuckDB's own views
)

// Decision is what the list says of a name.
type Decision struct {
	Allowed bool
	Why     string // completes "it …"
}

// List has the decisions.
type List map[Place]map[string]Decision

// Names are the decisions of functions.txt, read at the first question.
var Names = sync.OnceValue(func() List {
	all, err := read(text)
	if err != nil {
		panic(err) // the list is a part of the program, and a test reads it
	}
	return all
})

// read reads groups: a line "allow PLACE: WHY" or "refuse PLACE: WHY", and indented names below it.
func read(text string) (List, error) {
	all := List{}
	var now Decision
	var group map[string]Decision
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "  "):
			for _, name := range strings.Fields(strings.ToLower(line)) {
				if _, twice := group[name]; twice || group == nil {
					return nil, fmt.Errorf("functions.txt, line %d: %s is decided twice, or in no group", i+1, name)
				}
				group[name] = now
			}
		default:
			head, why, _ := strings.Cut(line, ": ")
			verdict, at, _ := strings.Cut(head, " ")
			if verdict != "allow" && verdict != "refuse" || why == "" {
				return nil, fmt.Errorf("functions.txt, line %d: %q is not a group", i+1, line)
			}
			if all[Place(at)] == nil {
				all[Place(at)] = map[string]Decision{}
			}
			now, group = Decision{verdict == "allow", why}, all[Place(at)]
		}
	}
	return all, nil
}

// called is the form of names that are written before a parenthesis; operators have others.
var called = pattern.Of(`^[a-z][a-z_0-9]*$`)

// Calls are the functions that a question may call, in either place, sorted.
func Calls() []string {
	may := map[string]bool{}
	for _, at := range []Place{Expression, From} {
		for name, d := range Names()[at] {
			if d.Allowed && called().MatchString(name) {
				may[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(may))
}
