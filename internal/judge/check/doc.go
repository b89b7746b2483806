// Package check reads training code and finds patterns that leak memory. It parses with tree-sitter, so half-broken
// files and notebooks are read too; nothing is imported or run. A rule is a row of the table in rules.go, a function,
// and a page in rules/ whose examples are its tests. It knows nothing of sessions: package evidence joins both.
//
// What every rule may ask stands in names.go (which function is called), scope.go (loops, hooks, no_grad), value.go
// (does an expression carry an autograd graph?) and bound.go (is a container ever emptied?). When in doubt a rule is
// silent: a false alarm costs more than a missed leak.
package check
