package arch

import (
	"bufio"
	"bytes"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// writers are the calls that change what lies at a path, by package. Each follows links that stand on the path, so that
// whoever can put one there says what is written or removed; package rootdir has all of them without that. Flock is
// among them because its lock must be given back as rootdir.Unlock does.
var writers = map[string]string{
	"os": "Remove RemoveAll WriteFile Create CreateTemp MkdirTemp Rename Mkdir MkdirAll Symlink Link Truncate Chmod " +
		"Chown Lchown OpenRoot OpenInRoot",
	"unix": "Unlink Unlinkat Rmdir Creat Rename Renameat Renameat2 Mkdir Mkdirat Symlink Symlinkat Link Linkat " +
		"Truncate Chmod Fchmodat Chown Lchown Fchownat Mkfifo Mkfifoat Mknod Mknodat Flock",
}

// opening are calls that write if their flags say so.
var opening = map[string]string{"os": "OpenFile", "unix": "Open Openat Openat2"}

const (
	rootDir    = "internal/base/rootdir"
	writesList = "internal/arch/testdata/writes.txt"
)

// forDevelopers is what runs in a checkout and is in no binary of ours.
const forDevelopers = "scripts test internal/faces/cli/gen internal/base/secret/gen internal/formats/table/gen " +
	"internal/formats/wire/gen " +
	"internal/formats/wire/wiretest internal/probe/gpu/nvml/gen"

// TestOneWriter holds that files are made, written and removed by package rootdir alone. testdata/writes.txt lists what
// is left, each with its reason; it may only shrink.
func TestOneWriter(t *testing.T) {
	allowed := readReasons(t, writesList)
	for _, f := range goFiles(t) {
		if f.isTest() || within(f.dir, rootDir) || within(f.dir, forDevelopers) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := writer(f, call)
			what := f.path + " " + name
			if name == "" {
				return true
			}
			if _, listed := allowed[what]; !listed {
				t.Errorf("%s:%d: %s may follow links that somebody has put there: use %s", f.path,
					f.fset.Position(call.Pos()).Line, name, rootDir)
			}
			allowed[what] = true
			return true
		})
	}
	for what, seen := range allowed {
		if !seen {
			t.Errorf("%s lists %s, which is gone: take it off", writesList, what)
		}
	}
}

// writer is the name of a call that writes by a path, or "".
func writer(f goFile, call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	of := pkg.Name
	if of == "syscall" {
		of = "unix"
	}
	name := pkg.Name + "." + sel.Sel.Name
	if slices.Contains(strings.Fields(writers[of]), sel.Sel.Name) {
		return name
	}
	if slices.Contains(strings.Fields(opening[of]), sel.Sel.Name) {
		text := f.src[f.fset.Position(call.Pos()).Offset:f.fset.Position(call.End()).Offset]
		for _, flag := range []string{"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"} {
			if bytes.Contains(text, []byte(flag)) {
				return name
			}
		}
	}
	return ""
}

// readReasons reads a list of exceptions: a file, a call or function, and a reason in each line.
func readReasons(t *testing.T, list string) map[string]bool {
	t.Helper()
	allowed := map[string]bool{}
	in := bufio.NewScanner(bytes.NewReader(readFile(t, list)))
	for in.Scan() {
		what, reason, ok := strings.Cut(in.Text(), ": ")
		if !ok || len(strings.Fields(what)) != 2 || reason == "" {
			t.Errorf("%s: %q is not a file, call and reason", list, in.Text())
		}
		allowed[what] = false
	}
	return allowed
}
