package arch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of size, in lines: what a reader can hold in mind at once. testdata/sizes.txt lists what exceeds them, with
// its size; a listed thing may shrink (and the list must follow), never grow, and nothing new may come in.
const (
	maxFunction = 70
	maxFile     = 600
	sizesList   = "internal/arch/testdata/sizes.txt"
)

func TestSizes(t *testing.T) {
	limits := readSizes(t, sizesList)
	over := map[string]int{}
	for _, f := range goFiles(t) {
		if f.isGenerated() {
			continue
		}
		if n := countLines(f.src); n > maxFile {
			over[f.path] = n
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
				if n > maxFunction {
					over[f.path+":"+funcName(fn)] = n
				}
			}
		}
	}
	pythonSizes(t, over)
	for what, n := range over {
		if limit, listed := limits[what]; !listed {
			t.Errorf("%s has %d lines (at most %d in a function, %d in a file): split it", what, n, maxFunction,
				maxFile)
		} else if n > limit {
			t.Errorf("%s has grown from %d to %d lines: split it", what, limit, n)
		}
	}
	for what, limit := range limits {
		if n := over[what]; n < limit {
			t.Errorf("%s says %s has %d lines; it has shrunk to %d (0: within the limit): update the list", sizesList,
				what, limit, n)
		}
	}
}

// columns is the width that two windows side by side have room for. A tab counts four.
const columns = 120

// wideList says how many lines of a file are wider; a listed file may lose some (and the list must follow), never gain
// any, and no other file may have one.
const wideList = "internal/arch/testdata/wide.txt"

// TestLinesFit holds the lines of Go and Python to the width, or to what the list allows.
func TestLinesFit(t *testing.T) {
	limits, over := readSizes(t, wideList), map[string]int{}
	count := func(path string, src []byte) {
		for line := range strings.Lines(string(src)) {
			if width(strings.TrimSuffix(line, "\n")) > columns {
				over[path]++
			}
		}
	}
	for _, f := range goFiles(t) {
		if !f.isGenerated() {
			count(f.path, f.src)
		}
	}
	for path, src := range pythonSources(t) {
		if first, _, _ := strings.Cut(src, "\n"); !strings.Contains(first, "Generated") {
			count(path, []byte(src))
		}
	}
	for path := range over {
		if over[path] > limits[path] {
			t.Errorf("%s has %d lines of more than %d columns, at most %d are allowed: fold them", path, over[path],
				columns, limits[path])
		}
	}
	for path, limit := range limits {
		if over[path] < limit {
			t.Errorf("%s allows %s %d wide lines; it has %d: update the list", wideList, path, limit, over[path])
		}
	}
}

// width of a line on the screen.
func width(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }

// TestCommentsFit holds comments that have lines of their own to the width.
func TestCommentsFit(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isGenerated() {
			continue
		}
		for i, line := range strings.Split(string(f.src), "\n") {
			wide := width(line)
			if wide > columns && strings.HasPrefix(strings.TrimLeft(line, "\t"), "// ") {
				t.Errorf("%s:%d: a comment of %d columns, of at most %d", f.path, i+1, wide, columns)
			}
		}
	}
}

func countLines(src []byte) int { return bytes.Count(src, []byte("\n")) }

func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	recv := fn.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	if index, ok := recv.(*ast.IndexExpr); ok {
		recv = index.X
	}
	if id, ok := recv.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// readSizes reads lines "path NUMBER" or "path:function NUMBER".
func readSizes(t *testing.T, list string) map[string]int {
	t.Helper()
	limits := map[string]int{}
	for line := range strings.Lines(string(readFile(t, list))) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var what string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &what, &n); err != nil {
			t.Fatalf("%s: %q: %v", list, line, err)
		}
		limits[what] = n
	}
	return limits
}

// pySizes prints the length of every function of the sources that it gets as JSON {path: text}. Python's own parser
// knows where a function ends.
const pySizes = `
import ast, json, sys
FUNC = (ast.FunctionDef, ast.AsyncFunctionDef)
for path, text in json.load(sys.stdin).items():
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, FUNC):
            print(path, node.name, node.end_lineno - node.lineno + 1)
`

// pythonSources are the texts of the repository's Python, by path. What lies in testdata at the top is others'.
func pythonSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, rel := range repoFiles(t) {
		if strings.HasPrefix(rel, "testdata/") {
			continue
		}
		if src := readFile(t, rel); isPython(rel, src) {
			sources[rel] = string(src)
		}
	}
	return sources
}

func pythonSizes(t *testing.T, over map[string]int) {
	t.Helper()
	sources := pythonSources(t)
	for rel, src := range sources {
		if n := countLines([]byte(src)); n > maxFile {
			over[rel] = n
		}
	}
	input, err := json.Marshal(sources)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", pySizes)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3 must parse every Python source: %v", withStderr(err))
	}
	for line := range strings.Lines(string(out)) {
		var file, name string
		var n int
		if _, err := fmt.Sscanf(line, "%s %s %d", &file, &name, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if n > maxFunction {
			over[file+":"+name] = n
		}
	}
}

func withStderr(err error) error {
	if exit, ok := err.(*exec.ExitError); ok {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}
