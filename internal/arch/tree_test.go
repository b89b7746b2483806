package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// The tests read every file themselves instead of asking `go list` or git: go test caches a result by the files that
// the test has opened, and can't see those that a child process opened; a violation would stay "ok (cached)".

const (
	modulePath = "github.com/memgauge/memgauge"
	root       = "../.."
)

// goFile is a parsed source file of the repository.
type goFile struct {
	path string // from the root of the repository, with slashes
	dir  string
	src  []byte
	ast  *ast.File
	fset *token.FileSet
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// isGenerated goes by the line that Go's tools go by (https://go.dev/s/generatedcode).
func (f goFile) isGenerated() bool { return ast.IsGenerated(f.ast) }

// repoFiles lists every file of the repository by its path from the root: what git ignores, and git itself, left out.
func repoFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			switch base := d.Name(); {
			case rel == ".", rel == ".ci", rel == ".github":
				return nil
			case strings.HasPrefix(base, "."), base == "__pycache__", rel == "bin", rel == "dist", rel == "shared":
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && rel != ".git" { // a file in git's own worktrees, and it names a place
			files = append(files, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readFile(t *testing.T, rel string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// goFiles parses every Go file outside testdata.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	for _, rel := range repoFiles(t) {
		if !strings.HasSuffix(rel, ".go") || strings.Contains("/"+rel, "/testdata/") {
			continue
		}
		f := goFile{path: rel, dir: path.Dir(rel), src: readFile(t, rel), fset: token.NewFileSet()}
		var err error
		if f.ast, err = parser.ParseFile(f.fset, rel, f.src,
			parser.ParseComments|parser.SkipObjectResolution); err != nil {
			t.Errorf("parse %v", err)
			continue
		}
		files = append(files, f)
	}
	return files
}

// isPython knows a Python source by its name or, for a script, by its first line.
func isPython(rel string, src []byte) bool {
	if strings.HasSuffix(rel, ".py") {
		return true
	}
	first, _, _ := bytes.Cut(src, []byte("\n"))
	return path.Ext(rel) == "" && bytes.HasPrefix(first, []byte("#!")) && bytes.Contains(first, []byte("python"))
}
