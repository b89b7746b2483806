package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestFaults names the line of what no Python reads, and is silent about what any of them does.
func TestFaults(t *testing.T) {
	for src, line := range map[string]int{
		"if x:\n    a()\n      b()\n":           3,
		"if x:\n        a()\n    b()\n":         3,
		"  x = 1\n":                             1,
		"def f():\n\ndef g():\n    pass\n":      3,
		"for a in b:\n":                         2,
		"def f(:\n":                             1,
		"x = (1,\n\n":                           1,
		"x = 1)\n":                              1,
		"x = (1]\n":                             1,
		"x = 'a\ny = 1\n":                       1,
		"x = '''a\ny = 1\n":                     1,
		"while x\n    pass\n":                   1,
		"x = \ny = 2\n":                         1,
		"x = = 2\n":                             1,
		"f(a b)\n":                              1,
		"x = [1,, 2]\n":                         1,
		"x = a +\n":                             1,
		"x = a and\n":                           1,
		"x = 5 $ 3\n":                           1,
		"try:\n    x()\nexcept E\n    y()\n":    3,
		"if x:\n\ta()\nelse:\n    b()\n  c()\n": 5,
		"class A:\n    def f(self):\n    return 1\n":   3,
		"x = 1\n    \ny = {'a' 1}\n":                   3,
		"async def f():\n    await g()\n   h()\n":      3,
		"f(\n  a,\n  b=,\n)\n":                         3,
		"if x == 1:\n    y = 1\nelse if x:\n  y = 2\n": 0, // words that are known, in an order that isn't
	} {
		found, err := File("x.py", []byte(src), Selection{})
		switch {
		case err != nil:
			t.Errorf("%q: %v", src, err)
		case line == 0:
		case len(found) != 1 || found[0].Rule.ID != Unreadable || found[0].Line != line:
			t.Errorf("%q: %v, want line %d", src, found, line)
		}
	}
}

// spoken are forms of one Python or another, from 2.7 to what is planned.
var spoken = []string{
	"print 'a', 5\nexec code in names\nprint >>f, `x`\nif a <> b: raise E, 'c'\nx = 0777L\nasync = False\na.async()\n",
	"lazy import json\nlazy from a import b\nx = t'{a}' t'b'\ntype X[T] = int\ntry:\n  a\nexcept A, B:\n  b\n",
	"match x:\n    case {'a': 1, **rest} if y: pass\n    case [1, *_] | A(): pass\n    case -1: pass\n",
	"x = f'{d['a']}' f\"{1 + 2 = # c\n}\" rf'\\{x}' f'{a:{w}.{p}}' f'{{' f'''{\n'a'}'''\n",
	"b = f'\\N{DIGIT ONE}{x!r:>5}'\nx = lambda *a, k=1, **b: (yield)\nx[1:, ..., ::2] = *[None] * 3, 1\n",
	"def f(a, /, b, *, c: int = 1, **d) -> None: ...\n",
	"from ...a import (b,\n  c)\nfrom . import *\nx = 1if a else 2\ny = 1.5e10.real + 0xfF + 1_0j + .5\n",
	"if a:\n\tif b:\n\t    x\n        y\n",
	"x = 1; y = 2;\nif x: y = 1; z = 2\nelse: pass\n\f\ndef f(): return \\\n    1\n",
	"@a.b(c)\nclass A(B, metaclass=C): x: int = 1; y: 'a'\n\nwith (open(a) as b, c): pass\n",
	"x = 'a' \"b\" b'c'\n[*a for b in c]\n{**a for b in c}\nassert a, b\ndel a, b\nraise a from b\nglobal x, y\n",
	"# only\n   # comments\n\n", "", "\ufeffx = 1\r\nif x:\r\n    y\r\n", "x = {\n'a': 1,\n  }\n", "def é(ñ): return ñ",
	"async def f():\n    async with a as b, c: return [x async for x in y if await z]\n", "for x in *a, b: pass\n",
	"if (n := 10) > 5: f(x=(y := 1), *a, **b)\nx = not a\ny = a if not b else -c\nz = a @ b\nz @= ~c\n",
}

func TestNoFaults(t *testing.T) {
	for _, src := range append(slices.Clone(spoken), sources(t)...) {
		if wrong := faultIn(src); wrong != nil {
			t.Errorf("line %d: %s:\n%s", strings.Count(src[:wrong.at], "\n")+1, wrong.what, src)
		}
	}
}

// TestFaultsOfNotebooks: a cell may be of another language.
func TestFaultsOfNotebooks(t *testing.T) {
	nb := `{"cells": [{"cell_type": "code", "source": "%%bash\nfor i in 1; do\n  ls (\ndone"}]}`
	if found, err := File("x.ipynb", []byte(nb), Selection{}); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
}

// TestFaultsAgainstPython: words left out, doubled or moved are mostly seen, and what Python compiles never is.
func TestFaultsAgainstPython(t *testing.T) {
	var texts []string
	for _, src := range sources(t) {
		words := strings.SplitAfter(src, " ")
		for i := 0; i < len(words); i += 1 + len(words)/env.Times(2, 20) {
			without := strings.Join(slices.Delete(slices.Clone(words), i, i+1), "")
			twice := strings.Join(slices.Insert(slices.Clone(words), i, words[i]), "")
			texts = append(texts, without, twice)
			if at := strings.IndexAny(src[len(src)*i/len(words):], "()[]:,=\"'"); at >= 0 {
				at += len(src) * i / len(words)
				texts = append(texts, src[:at]+src[at+1:], src[:at]+src[at:at+1]+src[at:])
			}
		}
	}
	bad := map[int]string{}
	for line := range strings.Lines(refused(t, texts)) {
		var i int
		if _, err := fmt.Sscan(line, &i); err == nil {
			bad[i] = line
		}
	}
	seen := 0
	for i, text := range texts {
		found, err := File("x.py", []byte(text), Selection{Select: []string{Unreadable}})
		switch says := bad[i]; {
		case err != nil:
			t.Error(err)
		case len(found) > 0 && says == "":
			t.Errorf("Python takes it, and we say %+v:\n%s", found, text)
		case len(found) > 0:
			seen++
		case says != "":
			t.Logf("not seen: %s", says)
		}
	}
	if t.Logf("%d of %d seen", seen, len(bad)); seen*10 < len(bad)*8 {
		t.Errorf("%d of %d faults are seen", seen, len(bad))
	}
}
