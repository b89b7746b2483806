package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// again is a text as often as it takes to fill some bytes.
func again(text string) func(size int) string {
	return func(size int) string { return strings.Repeat(text, size/len(text)+1) }
}

// after puts a beginning before what fills.
func after(head string, fill func(int) string) func(int) string {
	return func(size int) string { return head + fill(size) }
}

// counted fills with a form whose %[1]d counts up, and whose %[2]d is one ahead.
func counted(form string) func(int) string {
	return func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(form, "{i}", fmt.Sprint(i)), "{j}", fmt.Sprint(i+1)))
		}
		return b.String()
	}
}

// nested indents each line by one more.
func nested(line string) func(int) string {
	return func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(strings.Repeat(" ", i) + line + "\n")
		}
		return b.String()
	}
}

// brackets opens and closes as many.
func brackets(open, inner, shut string) func(int) string {
	return func(size int) string {
		n := size/(len(open)+len(shut)) + 1
		return "x = " + strings.Repeat(open, n) + inner + strings.Repeat(shut, n) + "\n"
	}
}

const inLoop = "xs = []\nfor e in range(9):\n l.backward()\n"

// hostile are texts that are made to be slow.
var hostile = map[string]func(size int) string{
	"chain":           after("x = a", again(".b().c()[0]")),
	"chains":          again("x = a" + strings.Repeat(".b().c()[0]", 200) + "\nxs.append(x)\n"),
	"ternaries":       after("x = ", again("a if b else ")),
	"tuples":          brackets("(", "a,", ")"),
	"parentheses":     again("x = " + strings.Repeat("(", 900) + "a" + strings.Repeat(")", 900) + "\n"),
	"open":            again("("),
	"closed":          again("])}"),
	"comprehensions":  brackets("[", "y", " for y in z]"),
	"lambdas":         after("x = ", again("lambda a: ")),
	"f-strings":       after("x = ", again("f'{a}' + ")),
	"nested f-string": again("x = f'{f\"{a}\"}'\n"),
	"triple quotes":   again("\"\"\"\n"),
	"quotes":          again("'\n"),
	"x = x + x":       after("x = f(y)\n", again("x = x + x\n")),
	"chain of names":  after("a0 = f(q)\n", counted("a{j} = a{i} + a{i}\nxs.append(a{i})\n")),
	"late name":       after("a0 = f(q)\n", counted("a{j} = a{i} + a{i}\n")),
	"ring of functions": after("def f0(): return f99()\n"+inLoop+" xs.append(f99())\n",
		counted("def f{j}(): return f{i}() + f{i}()\n")),
	"web of functions": counted("def f{i}():\n  return g(f{j}() + f0() + f1())\n" +
		"xs = []\nfor e in range(9):\n  xs.append(f0())\n"),
	"methods in chain": after("class A:\n", counted(" def f{j}(self): return self.f{i}() + self.f{i}()\n")),
	"callers in chain": counted("def f{i}(x):\n  return f{j}(x)\n"),
	"no_grad in chain": counted("def f{i}(x):\n  with torch.no_grad():\n    return f{j}(x)\n"),
	"deep if":          nested("if a:"),
	"deep for":         nested("for e in loader:"),
	"deep def":         nested("def f(x):"),
	"long line":        after("x = [", again("a, ")),
	"semicolons":       after(inLoop+" pass\n", again("xs.append(loss); total += loss; ")),
	"loops": again("xs = []\nfor e in range(9):\n  l = f(x)\n" +
		"  l.backward()\n  xs.append(l)\n  total += l\n"),
	"loops apart": counted("xs{i} = []\nfor e in range(9):\n  l{i} = model(x)\n  l{i}.backward()\n" +
		"  xs{i}.append(l{i})\n  t{i} += l{i}\n"),
	"quiet loops":   again("xs = []\nfor e in range(9):\n  l = f(x)\n  l.backward()\n  xs.append(l.item())\n"),
	"one loop":      after(inLoop, again(" xs.append(l)\n total += l\n")),
	"whiles":        again("while a < b:\n  y = model(x)\n  xs[y] = y\n"),
	"same function": again("def f(x):\n  for e in loader:\n    f(x)\n    fig = plt.figure()\n"),
	"datasets":      counted("class A{i}(Dataset):\n  def __getitem__(self, i):\n    self.c.append(i)\n  c = []\n"),
	"meters": counted("class M{i}:\n def __init__(self):\n  self.a = []\n def update(self, x):\n  self.a.append(x)\n" +
		"m = M{i}()\nm.update(l)\n"),
	"outputs": after("class A(LightningModule):\n def training_step(self, b):\n",
		again("  self.o.append(self.m(b))\n")),
	"methods": after("class A(LightningModule):\n",
		again(" def training_step(self, b):\n  self.o = []\n  self.o.append(b)\n")),
	"globals":     after("def f():\n global a", counted(", a{i}")),
	"decorators":  again("@a.b(c)\n"),
	"dict":        after("x = {", counted("'k{i}': v{i}, ")),
	"imports":     counted("from a{i} import a{j} as a{i}\n"),
	"itself":      again("x = x\nself.x = self.x\nfor x in x: pass\n"),
	"comments":    again("#\n"),
	"blank lines": again("\n"),
	"backslashes": after("x = ", again("\\\n")),
	"spaces":      after("x", again(" ")),
	"pragmas":     after(inLoop, again(" xs.append(l)  # memgauge: ignore[MG101, MG103]\n")),
	"NUL":         again("\x00"),
	"not UTF-8":   again("\xff\xfe"),
	"tries":       again("try:\n  model(x)\nexcept RuntimeError as e:\n  es.append(e)\n"),
	"far figures": counted("for i{i} in r:\n  plt.figure()\n"),
	"decorated":   after("@a"+strings.Repeat("\n@b", 1000)+"\ndef f():\n", again(" for e in r:\n  plt.figure()\n")),
	"figures":     after("def f():\n for e in loader:\n", again("  fig = plt.figure()\n")),
	"backwards":   after("for e in loader:\n", again("  h = model(h)\n  l.backward(retain_graph=True)\n")),
	"evals":       after("def f():\n for b in loader:\n", again("  model.eval()\n  model(b)\n")),
	"parameters":  after("def forward(a", counted(", a{i}")),
	"sum":         after("x = ", again("a + ")),
	"one name":    after("x = ", again("a")),
	"long names":  again(strings.Repeat("a", 5000) + " = " + strings.Repeat("a", 5000) + ".b\n"),
	"defs":        again("def f("),
	"colons":      again("a: "),
	"subscripts":  after("x = a", again("[0]")),
	"awaits":      again("await "),
	"dels":        after(inLoop, again(" del ys[0]\n if len(xs) > 3: xs.append(l)\n")),
	"environment": again("os.environ['PYTORCH_ALLOC_CONF'] = 'a'\nx.cuda()\n"),
	"hooks":       after("for b in loader:\n", again(" m.register_forward_hook(f)\n")),
	"walruses":    again("(y := "),
	"assignments": after("x = ", again("x = ")),
}

// square are those in which a rule has to compare each of many places with each of many others: their steps run out.
var square = set("backwards", "dels")

// TestHostileSource holds the work for texts that are made to be slow to its bounds: it is counted, and no clock asked,
// but for one that only work without any bound reaches.
func TestHostileSource(t *testing.T) {
	began := time.Now()
	for name, fill := range hostile {
		t.Run(name, func(t *testing.T) {
			text := "import torch, matplotlib.pyplot as plt\n" + fill(env.Times(1<<14, 1<<16))
			src, err := newSource("x.py", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			told := false
			if f, err := newFile(src); err != nil {
				told = errors.Is(err, errHard)
			} else {
				_, why := f.check(Selection{})
				told = why != ""
				used := stepsFor(len(text)) - f.left
				if most := 200 * max(len(text), 1<<16); used > most && !square[name] {
					t.Errorf("%d steps for %d bytes", used, len(text))
				}
				if f.left < 0 && !told {
					t.Error("cut short, and it isn't told")
				}
			}
			found, err := File("x.py", []byte(text), Selection{})
			if has := slices.ContainsFunc(found, func(f Finding) bool { return f.Rule.ID == Unreadable }); err == nil &&
				told && !has {
				t.Error("read in part, and no finding says so")
			}
		})
	}
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it took %v", took)
	}
}

// TestTextIsCounted: rules read the text, and lists of names, through methods that count it. Nothing else would see
// that a rule looks through all of a file at each of many places.
func TestTextIsCounted(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	raw := regexp.MustCompile(`strings\.\w+\((string\()?(f|c|fn|n)\.(t|tree|src)\.(src|text)\b|` +
		`(src\.text|\.src)\[.*:|:= string\(f\.src\.text|Join\([\w.]+\.(bases|decorators)`)
	counts := set("tree.go", "source.go", "work.go", "cure_kinds.go", "fix.go")
	for _, name := range files {
		if counts[name] || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := raw.FindString(string(text)); at != "" {
			t.Errorf("%s: %s: take span, mentions or joined, which count what is looked at", name, at)
		}
	}
}

// TestHostileBroken holds what the parser makes of broken texts to its bounds.
func TestHostileBroken(t *testing.T) {
	for _, name := range []string{"comments", "backslashes"} {
		text := []byte("import torch\n" + hostile[name](1<<20))
		if _, err := parse(text); !errors.Is(err, errHard) {
			t.Errorf("%s: %v", name, err)
		}
	}
	text := []byte("import torch\n" + hostile["defs"](1<<16))
	w := newParserWork(text)
	w.fuse = -1 // has blown
	if _, err := parseWithin(text, w); !errors.Is(err, errHard) {
		t.Errorf("a blown fuse: %v", err)
	}
}

// TestHostileFiles names what is no source: none may be waited for, or read without an end.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	sparse, err := os.Create(path("sparse.py"))
	if err == nil {
		err = errors.Join(sparse.Truncate(1<<30), sparse.Close())
	}
	if err := errors.Join(err, syscall.Mkfifo(path("fifo.py"), 0o600), os.Symlink("/dev/zero", path("zero.py")),
		os.Symlink("loop.py", path("loop.py")), os.Symlink(".", path("itself")),
		os.WriteFile(path("good.py"), []byte("import torch\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sparse.py", "fifo.py", "zero.py", "loop.py"} {
		if found, _ := Read(path(name), Selection{}); len(found) != 1 || found[0].Rule.ID != Unreadable {
			t.Errorf("%s: %+v", name, found)
		}
	}
	files, _, err := Config{}.Files([]string{dir})
	if want := []string{path("good.py"), path("sparse.py")}; err != nil || !slices.Equal(files, want) {
		t.Errorf("%v, %v", files, err)
	}
	if err := os.Rename(path("fifo.py"), path("pyproject.toml")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(dir); err == nil {
		t.Error("a named pipe was read as pyproject.toml")
	}
}

// TestHostileNotebook has cells whose lines make one long loop.
func TestHostileNotebook(t *testing.T) {
	cell := `{"cell_type": "code", "source": ["import torch\n", "l.backward()\n"` +
		strings.Repeat(`, "xs.append(l)\n"`, 50_000) +
		`]}`
	text := `{"cells": [` + cell + "," + cell + `]}`
	if _, err := File("x.ipynb", []byte(text), Selection{}); err != nil {
		t.Error(err)
	}
}

// TestHostileConfig holds pyproject.toml to its size, and its names to theirs.
func TestHostileConfig(t *testing.T) {
	for name, text := range map[string]string{
		"large":  strings.Repeat("#\n", maxConfig),
		"deep":   "a = " + strings.Repeat("[", maxConfig/2),
		"dotted": strings.Repeat("a.", maxConfig/4) + "a = 1",
		"quoted": strings.Repeat(`"a" . `, maxConfig/8) + "a = 1",
		"header": "[" + strings.Repeat("a.", maxConfig/4) + "a]",
		"inline": "a = {" + strings.Repeat("a={", maxConfig/8),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "pyproject.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(dir); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

// TestManyFindings stops at as many findings as anybody reads, and says so.
func TestManyFindings(t *testing.T) {
	found, err := File("x.py", []byte("import torch\n"+hostile["one loop"](1<<16)), Selection{})
	if err != nil || len(found) != maxFindings+1 || found[maxFindings].Rule.ID != Unreadable {
		t.Errorf("%d findings, %v", len(found), err)
	}
}

// TestUnreadIsTold holds that a choice of rules doesn't hide that a file was not read.
func TestUnreadIsTold(t *testing.T) {
	rule, _ := Find(Unreadable)
	if !(Selection{Select: []string{"MG101"}}).Has(rule) || (Selection{Ignore: []string{Unreadable}}).Has(rule) {
		t.Error("MG000 must go by --ignore only")
	}
}

// TestMatchesAreCounted: an expression takes far longer than a look at the text, so no rule matches one by itself.
func TestMatchesAreCounted(t *testing.T) {
	tree := &tree{left: 4 * maxLine, known: map[match]bool{}}
	if done := tree.within(func() {
		for i := range maxLine {
			tree.fits(loaderName, fmt.Sprint("name", i))
		}
	}); done {
		t.Error("matches cost no steps")
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), ".Match"+"String("); name != "tree.go" && n > 0 {
			t.Errorf("%s matches %d times without counting it", name, n)
		}
	}
}

// TestPartlyReadIsNotMended: of a file that is read in part nobody can tell what a fix has done. It would be tried
// again and again.
func TestPartlyReadIsNotMended(t *testing.T) {
	text := []byte("import torch\ntotal = 0\nfor i in range(9):\n" +
		strings.Repeat(" loss = m(x); loss.backward()\n total += loss\n", maxFindings+100))
	found, err := File("x.py", text, Selection{})
	if err != nil || fixable(found) > 0 || !strings.Contains(found[len(found)-1].Message, "--fix leaves it alone") {
		t.Errorf("%d of %d findings can be mended, %v", fixable(found), len(found), err)
	}
}

// TestMendingIsBounded: mending ends with its steps.
func TestMendingIsBounded(t *testing.T) {
	text := []byte("import torch\ntotal = 0\nfor i in range(9):\n loss = m(x); loss.backward()\n total += loss\n")
	for steps, want := range map[int]int{0: 0, 1: 1} {
		_, left, n, err := (*Project)(nil).mendWithin("x.py", text, Selection{}, steps)
		if err != nil || n != want || len(left) != 1-want {
			t.Errorf("%d steps: %d mended, %d left, %v", steps, n, len(left), err)
		}
	}
}

// TestStrangersSettings: who may put a file above ours silences nothing in it.
func TestStrangersSettings(t *testing.T) {
	env.Root(t)
	dir := t.TempDir()
	path, below := filepath.Join(dir, "pyproject.toml"), filepath.Join(dir, "ours")
	if err := errors.Join(os.Mkdir(below, 0o700), os.Chmod(dir, 0o777|os.ModeSticky),
		os.WriteFile(path, []byte("[tool.memgauge.check]\nignore = [\"MG\"]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if c, err := ReadConfig(below); err != nil || len(c.Ignore) != 1 || c.Foreign != nil {
		t.Fatalf("our own: %+v, %v", c, err)
	}
	if err := os.Chown(path, 4711, 4711); err != nil {
		t.Fatal(err)
	}
	if c, err := ReadConfig(below); err != nil || c.Ignore != nil || !slices.Equal(c.Foreign, []string{path}) {
		t.Errorf("a stranger's: %+v, %v", c, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // where only its owner puts files, it is his who wrote the rest
		t.Fatal(err)
	}
	if c, err := ReadConfig(below); err != nil || len(c.Ignore) != 1 {
		t.Errorf("another's project: %+v, %v", c, err)
	}
}

// TestCellsThatAreNoText: what can't be read of a notebook is told.
func TestCellsThatAreNoText(t *testing.T) {
	for _, text := range []string{`{"cells": null}`, `{"cells": [{"cell_type": "code", "source": 5}]}`,
		`{"cells": [{"cell_type": "code", "source": ["a", 5]}]}`, `{"cells": [{"cell_type": "code", "source": {}}]}`} {
		if _, err := File("x.ipynb", []byte(text), Selection{}); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	for _, text := range []string{`{"cells": []}`, `{"worksheets": [{"cells": []}]}`,
		`{"cells": [{"cell_type": "code"}]}`} {
		if _, err := File("x.ipynb", []byte(text), Selection{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
