package store

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/internal/remedy"
)

//go:embed functions.txt
var functionList string

// place is where a name stands in a statement. The same name may be harmless in one place and not in another: the table
// macro histogram takes the name of a table as text, the aggregate doesn't.
type place string

const (
	inExpression place = "expression" // scalar functions, aggregates, window functions, macros, operators
	inFrom       place = "table"      // table functions and table macros
	asView       place = "view"       // DuckDB's own views
)

// decision is what functions.txt says of a name.
type decision struct {
	allowed bool
	why     string // completes "it …"
}

type decisions map[place]map[string]decision

// functions are the decisions of functions.txt, read at the first question.
var functions = sync.OnceValue(func() decisions {
	all, err := readDecisions(functionList)
	if err != nil {
		panic(err) // the list is a part of the program, and a test reads it
	}
	return all
})

// readDecisions reads groups: a line "allow PLACE: WHY" or "refuse PLACE: WHY", and indented names below it.
func readDecisions(text string) (decisions, error) {
	all := decisions{}
	var now decision
	var group map[string]decision
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "  "):
			for _, name := range strings.Fields(lowerASCII(line)) {
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
			if all[place(at)] == nil {
				all[place(at)] = map[string]decision{}
			}
			now, group = decision{verdict == "allow", why}, all[place(at)]
		}
	}
	return all, nil
}

// check refuses a function that the list doesn't allow in this place.
func (d decisions) check(at place, name string) error {
	name = lowerASCII(name)
	known, ok := d[at][name]
	switch {
	case known.allowed:
		return nil
	case ok:
		return remedy.Add(&Error{Msg: "the function " + name + " is not available: it " + known.why, Kind: ErrRefused},
			filesHint)
	}
	hint := "`FROM duckdb_functions()` lists what DuckDB has"
	if near := d.nearest(at, name); near != "" {
		hint = "did you mean " + near + "?"
	}
	return remedy.Add(&Error{Msg: fmt.Sprintf("there is no function %q that a question may call", name),
		Kind: ErrRefused}, hint)
}

// longestName is longer than any function's, in bytes: comparing takes the product of the lengths.
const longestName = 60

// nearest returns the allowed function whose name is less than a third of its length away; "" if there is none.
func (d decisions) nearest(at place, name string) (nearest string) {
	if len(name) > longestName {
		return ""
	}
	least := 1.0 / 3
	for other, known := range d[at] {
		far := float64(distance(name, other)) / float64(max(len(name), 1))
		if known.allowed && (far < least || far == least && nearest != "" && other < nearest) {
			nearest, least = other, far
		}
	}
	return nearest
}

// lowerASCII is how DuckDB's catalog compares names: letters beyond ASCII are different ones.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
