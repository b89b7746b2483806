package arch

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

func TestOneDocForEachPackage(t *testing.T) {
	docs, dirs := map[string][]string{}, map[string]string{}
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		want := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			want = "Command " + path.Base(f.dir) + " "
		}
		dirs[f.dir] = want
		if f.ast.Doc == nil {
			continue
		}
		docs[f.dir] = append(docs[f.dir], f.path)
		if text := f.ast.Doc.Text(); !strings.HasPrefix(text, want) {
			t.Errorf("%s: the package's doc begins %q, not %q", f.path, firstLine(text), want)
		}
	}
	for dir, want := range dirs {
		if len(docs[dir]) != 1 {
			t.Errorf("%s: %d files carry a package doc (%s), want one that begins %q",
				dir, len(docs[dir]), strings.Join(docs[dir], ", "), want)
		}
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

var mdLink = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)

// TestLinks follows every relative link of the documents, and wants each format's document to be reached by one.
func TestLinks(t *testing.T) {
	files := repoFiles(t)
	exists := map[string]bool{}
	for _, f := range files {
		exists[f] = true
		for dir := path.Dir(f); dir != "."; dir = path.Dir(dir) {
			exists[dir] = true
		}
	}
	linked := map[string]bool{}
	for _, f := range files {
		if path.Ext(f) != ".md" || strings.HasPrefix(f, "testdata/") {
			continue
		}
		for _, link := range mdLink.FindAllStringSubmatch(string(readFile(t, f)), -1) {
			if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
				continue
			}
			to := path.Join(path.Dir(f), link[1])
			if !exists[to] {
				t.Errorf("%s links to %s, which does not exist", f, link[1])
			}
			if to != f {
				linked[to] = true
			}
		}
	}
	for _, f := range files {
		if strings.HasPrefix(f, "docs/") && path.Ext(f) == ".md" && !linked[f] && f != "docs/ARCHITECTURE.md" &&
			!linked[path.Dir(f)] {
			t.Errorf("no document links to %s", f)
		}
	}
}

var codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")

// TestReadmes holds the translation to the original: the same blocks, which a test runs, in the same order.
func TestReadmes(t *testing.T) {
	english := codeBlock.FindAllString(string(readFile(t, "README.md")), -1)
	chinese := codeBlock.FindAllString(string(readFile(t, "README.zh-CN.md")), -1)
	if len(english) == 0 || len(english) != len(chinese) {
		t.Fatalf("README.md has %d blocks of code, README.zh-CN.md %d", len(english), len(chinese))
	}
	for i := range english {
		if english[i] != chinese[i] {
			t.Errorf("block %d of README.zh-CN.md differs from README.md's; copy this over:\n%s", i+1, english[i])
		}
	}
}
