// Package pattern has regular expressions that are compiled at their first use. A program starts dozens of times for
// each time that it needs one of them, and to compile a hundred takes a third of such a start. It knows no expression.
package pattern

import (
	"regexp"
	"sync"
)

// Of returns what gives an expression, compiled once. It panics there if the expression is wrong.
func Of(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
