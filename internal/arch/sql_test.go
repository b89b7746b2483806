package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// asks are the packages that present a session and have no SQL of their own.
const asks = presenters + " internal/faces/metrics internal/faces/export"

// sqlOfTheirOwn are the literals that are SQL in spite of that, by file, with the reason. The list may only shrink.
var sqlOfTheirOwn = map[string]struct {
	literals int
	why      string
}{
	"internal/faces/cli/ask/showing.go":         {1, "the user's statement, bounded"},
	"internal/faces/cli/snapshot/flamecache.go": {7, "tables of a memory snapshot, not of a session"},
	"internal/faces/export/perfetto.go":         {11, "readings, thinned to what a viewer takes"},
}

var sqlText = regexp.MustCompile(`\bSELECT ["*(a-z%]|\bFROM ([a-z]+\.[a-z]|\(|$)`)

// TestPresentersHaveNoSQL: what a figure means is said in internal/door/questions, and not by each who shows it.
func TestPresentersHaveNoSQL(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || !within(f.dir, asks) {
			continue
		}
		found := 0
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err == nil && sqlText.MatchString(text) && !shownToUsers(text) {
				found++
			}
			return true
		})
		allowed := sqlOfTheirOwn[f.path]
		switch {
		case found > allowed.literals:
			t.Errorf("%s has SQL in %d literals, at most %d are allowed: a question belongs to internal/door/questions",
				f.path, found, allowed.literals)
		case found < allowed.literals:
			t.Errorf("%s has SQL in %d literals: lower its number in sqlOfTheirOwn from %d", f.path, found,
				allowed.literals)
		}
	}
}

// shownToUsers reports whether the text is an example of what users write.
func shownToUsers(text string) bool {
	return strings.Contains(text, "memgauge ") || strings.Contains(text, `\chart `)
}
