package arch

import (
	"go/ast"
	"go/token"
	"testing"
)

// TestStartCompilesNothing holds that no pattern is compiled before main: each would take its part of the start of
// every command, of which hardly one needs it.
func TestStartCompilesNothing(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || within(f.dir, forDevelopers) {
			continue
		}
		for _, d := range f.ast.Decls {
			if vars, ok := d.(*ast.GenDecl); ok && vars.Tok == token.VAR {
				ast.Inspect(vars, func(n ast.Node) bool {
					if _, later := n.(*ast.FuncLit); later {
						return false
					}
					if call, ok := n.(*ast.CallExpr); ok && compiles(call) {
						t.Errorf("%s:%d: compiled at the start of every command: use internal/base/pattern", f.path,
							f.fset.Position(call.Pos()).Line)
					}
					return true
				})
			}
		}
	}
}

func compiles(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "regexp" && (sel.Sel.Name == "MustCompile" || sel.Sel.Name == "MustCompilePOSIX")
}
