package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

const stdoutList = "internal/arch/testdata/stdout.txt"

// toStdout are the calls that may take standard output itself: JSON, and what asks for the terminal's width.
var toStdout = strings.Fields("doc.WriteJSON json.NewEncoder term.TerminalWidth term.FileOf")

// TestProseIsMadePlain holds that commands write prose to App.Text, or to App.Answer, where no name of somebody else's
// controls the terminal on which a file or a pipe ends up. Standard output itself is for JSON, and for what
// testdata/stdout.txt lists by function, with a reason; that may only shrink.
func TestProseIsMadePlain(t *testing.T) {
	allowed := readReasons(t, stdoutList)
	for _, f := range goFiles(t) {
		if f.isTest() || !within(f.dir, "internal/faces/cli") ||
			within(f.dir, "internal/faces/cli/app "+forDevelopers) {
			continue
		}
		for _, d := range f.ast.Decls {
			fun, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			what := f.path + " " + fun.Name.Name
			line := f.fset.Position(bareStdout(fun).Pos()).Line
			if line == 0 {
				continue
			}
			if _, listed := allowed[what]; !listed {
				t.Errorf("%s:%d: %s writes to Stdout: use Text() for prose, Answer(asJSON) for either", f.path, line,
					fun.Name.Name)
			}
			allowed[what] = true
		}
	}
	for what, seen := range allowed {
		if !seen {
			t.Errorf("%s lists %s, which is gone: take it off", stdoutList, what)
		}
	}
}

// bareStdout is the first mention of a Stdout in a function that is no argument of what may take it.
func bareStdout(fun *ast.FuncDecl) (found ast.Node) {
	fine := map[ast.Node]bool{}
	found = &ast.BadExpr{}
	ast.Inspect(fun, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(toStdout, pkg.Name+"."+sel.Sel.Name) {
					fine[n.Args[0]] = true
				}
			}
		case *ast.SelectorExpr:
			if _, none := found.(*ast.BadExpr); none && n.Sel.Name == "Stdout" && !fine[n] {
				found = n
			}
		}
		return true
	})
	return found
}

// severalLines are functions of commands whose words to standard error may have lines.
var severalLines = map[string]string{
	"internal/faces/cli/ask/eval.go":          "tracebacks of the user's own code",
	"internal/faces/cli/ask/interactive.go":   "errors of SQL, with the place of the mistake in a line of its own",
	"internal/faces/cli/ask/lines.go":         "likewise",
	"internal/faces/cli/watch/distributed.go": "warnings, which are prose already",
}

// TestNotesKeepTheirLine: what a command says on standard error beside its answer has names of files, and of what is in
// them, which may have lines that look like ours. plain.Fprintf keeps each on its line.
func TestNotesKeepTheirLine(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || !within(f.dir, "internal/faces/cli") || severalLines[f.path] != "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 || !slices.Contains([]string{"Fprint", "Fprintf", "Fprintln"}, called(call)) ||
				!strings.EqualFold(lastName(call.Args[0]), "stderr") {
				return true
			}
			for _, x := range call.Args[1:] {
				if _, constant := x.(*ast.BasicLit); !constant {
					t.Errorf("%s:%d: names on standard error: use plain.Fprintf", f.path, f.fset.Position(n.Pos()).Line)
				}
			}
			return true
		})
	}
}

// called is the name of a function of package fmt that is called; "" for others.
func called(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && lastName(s.X) == "fmt" {
		return s.Sel.Name
	}
	return ""
}

// lastName is a variable's or a field's name.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}
