package arch

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// foreignTexts are the places in product code that go by the words of an error or a message, with whose words they are:
// of another program, which has no code for it. The list may only shrink.
var foreignTexts = map[string]struct {
	places int
	whose  string
}{
	"internal/faces/cli/app/app.go":   {2, "cobra's, of an unknown command"},
	"internal/faces/cli/app/wrong.go": {1, "cobra's, of flags that exclude each other"},
	"internal/faces/cli/ask/query.go": {1, "a prefix that is not to stand twice"},
	"internal/fleet/lake/inside.go":   {1, "DuckDB's, of a file that it can't read"},
	"internal/judge/guard/policy.go":  {1, "the YAML reader's prefix"},
	"internal/record/store/errors.go": {3, "DuckDB's, of a full disk and a busy checkpoint"},
}

// reads are the functions that take a text apart.
var reads = map[string]bool{"Contains": true, "HasPrefix": true, "HasSuffix": true, "Cut": true, "Index": true,
	"EqualFold": true, "Split": true, "Fields": true, "TrimPrefix": true, "MatchString": true,
	"FindStringSubmatch": true}

// TestTextsAreForPeople: no code goes by the words of an error, nor compares with a sentence: what a program must know
// is a code or a type.
func TestTextsAreForPeople(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || !layered(f.dir) {
			continue
		}
		found := 0
		note := func(n ast.Node) {
			found++
			if found > foreignTexts[f.path].places {
				t.Errorf("%s: a program goes by the words of a text: give it a code, or the error a type",
					f.fset.Position(n.Pos()))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && reads[sel.Sel.Name] && len(n.Args) > 0 &&
					isErrorText(n.Args[0]) {
					note(n)
				}
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (isErrorText(n.X) || isErrorText(n.Y) ||
					isSentence(n.X) || isSentence(n.Y)) {
					note(n)
				}
			}
			return true
		})
		if allowed := foreignTexts[f.path]; found < allowed.places {
			t.Errorf("%s goes by words in %d places: lower its number in foreignTexts from %d", f.path, found,
				allowed.places)
		}
	}
}

// isErrorText says whether an expression is err.Error().
func isErrorText(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Error"
}

// isSentence says whether an expression is a text of several words, which only people read.
func isSentence(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return false
	}
	text, err := strconv.Unquote(lit.Value)
	return err == nil && len(strings.Fields(text)) > 2
}
