package check

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/memgauge/memgauge/test/env"
)

// sources are the texts of the rules' pages, of the pairs and of the labelled programs.
func sources(t *testing.T) (list []string) {
	t.Helper()
	for _, r := range Rules() {
		wrong, right := r.Examples()
		list = append(list, append(wrong, right...)...)
	}
	for _, pattern := range []string{"check/corpus/*/*.txtar", "accuracy/corpus/programs/*.py",
		"accuracy/corpus/hard/programs/*.py"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", "test", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, ".txtar") {
				list = append(list, string(data))
				continue
			}
			for _, f := range txtar.Parse(data).Files {
				list = append(list, string(f.Data))
			}
		}
	}
	return append(list, guide)
}

const compiles = `
import json, sys, warnings
warnings.simplefilter("ignore")
for i, text in enumerate(json.load(sys.stdin)):
    try:
        compile(text, "text", "exec")
    except (SyntaxError, ValueError) as e:
        print(i, repr(e))
`

// refused are the texts that Python itself can't compile, with what it says.
func refused(t *testing.T, texts []string) string {
	t.Helper()
	all := env.CPythons(t)
	input, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := all[len(all)-1].Command(t, "-c", compiles)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestSubsetsOfFixes: whichever findings are mended, Python compiles what comes out; mended again, nothing changes; and
// all lines end as the text's did.
func TestSubsetsOfFixes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var made []string
	for _, src := range sources(t) {
		for _, data := range []string{src, strings.ReplaceAll(src, "\n", "\r\n"), strings.TrimRight(src, "\n")} {
			found, err := File("x.py", []byte(data), Selection{})
			if err != nil {
				t.Fatal(err)
			}
			if fixable(found) == 0 {
				continue
			}
			for range min(1<<fixable(found), env.Times(4, 32)) {
				var some []Finding
				for _, f := range found {
					if random.IntN(2) == 0 {
						some = append(some, f)
					}
				}
				out, _ := Apply([]byte(data), some)
				once, _, _, err := Mend("x.py", out, Selection{})
				twice, left, n, err2 := Mend("x.py", once, Selection{})
				if err != nil || err2 != nil || n > 0 || !bytes.Equal(once, twice) {
					t.Errorf("mended again: %d, %v, %v\n%s", n, err, err2, twice)
				}
				if fixable(left) > 0 {
					t.Errorf("%d findings that can be mended are left in\n%s", fixable(left), once)
				}
				if ends := bytes.Count(once, []byte("\r\n")); ends > 0 && ends != bytes.Count(once, []byte("\n")) {
					t.Errorf("lines end otherwise:\n%q", once)
				}
				made = append(made, string(out), string(once))
			}
		}
	}
	if said := refused(t, made); said != "" {
		t.Error(said)
	}
}

const hook = `import torch
import lightning.pytorch as pl
import matplotlib.pyplot as plt

class A(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.outs = []
        self.more = []

    def validation_step(self, batch, i):
        out = self.model(batch)
        self.outs.append(out.detach())
        self.more.append(out.detach())

%s
`

// TestTouchingFixes: fixes at one place are made one after the other, and one that has no place of its own is not made.
func TestTouchingFixes(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"two lists and a figure in a loop": {`    def on_validation_epoch_end(self):
        a, b = torch.cat(self.outs), torch.cat(self.more)
        for i in range(3):
            plt.figure()
            plt.scatter(a[:, i], b[:, i])
            plt.savefig("a.png")  # the last line`, `            plt.savefig("a.png")  # the last line
            plt.close()
        self.outs.clear()
        self.more.clear()`},
		"on the line of the def": {`    def on_validation_epoch_end(self): self.log("a", torch.cat(self.outs))`, ""},
		"behind a semicolon": {`    def on_validation_epoch_end(self):
        a = torch.cat(self.outs); self.log("a", a.sum())`, ""},
		"behind a text": {"    def on_validation_epoch_end(self):\n        a = '''\n  '''; self.log(a, " +
			"torch.cat(self.outs).sum())", ""},
	} {
		t.Run(name, func(t *testing.T) {
			src := fmt.Sprintf(hook, c.body)
			after, left, _, err := Mend("x.py", []byte(src), Selection{})
			if err != nil || fixable(left) > 0 {
				t.Errorf("%v, %d left", err, fixable(left))
			}
			if c.want == "" && string(after) != src || !strings.Contains(string(after), c.want) {
				t.Errorf("it became\n%s", after)
			}
			if said := refused(t, []string{string(after)}); said != "" {
				t.Errorf("%s\n%s", said, after)
			}
		})
	}
}

// TestDoubtfulFixes: what may be no tensor, or no text that we understand, is found and left as it is.
func TestDoubtfulFixes(t *testing.T) {
	const head = "import torch\ntotal = 0\nkept = []\nfor batch in loader:\n    opt.zero_grad()\n" +
		"    out = model(batch)\n    loss = out.loss\n    loss.backward()\n    opt.step()\n"
	for name, src := range map[string]string{
		"a coroutine":         head + "    total += await compute_loss(out)\n",
		"a list":              head + "    kept.extend([loss])\n",
		"any output":          head + "    kept.append(out)\n",
		"a dict of losses":    head + "    d = {'a': loss}\n    kept.append(d)\n",
		"not UTF-8":           head + "    kept.append(loss)  # \xff\n",
		"lone returns":        head + "    kept.append(loss)\n# a\rb\n",
		"broken above":        head + "    kept.append(loss)\n  x = 1\n",
		"not understood":      head + "    kept.append(loss)\n    a = *[None] * 3, 2\n",
		"one of many targets": head + "    a, b = loss\n    kept.append(a)\n",
	} {
		if after, _, n, err := Mend("x.py", []byte(src), Selection{}); err != nil || n > 0 || string(after) != src {
			t.Errorf("%s: %d mended, %v:\n%s", name, n, err, after)
		}
	}
	if _, _, n, _ := Mend("x.py", []byte(head+"    kept.append(loss)\n"), Selection{}); n != 1 {
		t.Errorf("%d mended where there is no doubt", n)
	}
}

//go:embed testdata/runs.py
var runs string

// longProgram is a text, in bytes, that trains for minutes: the labelled programs, whose fixes are those of the others.
const longProgram = 4000

// TestFixedProgramsRun: every fix, also those that are suggestions, is made in every text before a repair that there
// is, and the text is run with torch before and after: what ran still runs.
func TestFixedProgramsRun(t *testing.T) {
	env.Long(t, "it runs some hundred small trainings")
	python := env.Torch(t)
	var texts [][3]string
	for i, src := range sources(t) {
		after, _, n, err := Mend("x.py", []byte(src), Selection{Unsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 && len(src) < longProgram {
			texts = append(texts, [3]string{fmt.Sprint(i), src, string(after)})
		}
	}
	input, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := python.Command(t, "-c", runs, t.TempDir())
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var said struct {
		Broken  [][]any
		Reached int
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d texts mended, of %d a mended line ran", len(texts), said.Reached)
	if said.Reached < 10 {
		t.Errorf("of %d mended texts only %d ran a mended line", len(texts), said.Reached)
	}
	for _, b := range said.Broken {
		t.Errorf("text %v: %v (before: %v)\n%s", b[0], b[1], b[2], must(texts, b[0]))
	}
}

func must(texts [][3]string, name any) string {
	for _, text := range texts {
		if text[0] == name {
			return text[2]
		}
	}
	return ""
}
