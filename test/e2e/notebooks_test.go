package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// shown is what a cell showed.
type shown struct{ Text, HTML, Error string }

// notebook runs cells in a real kernel that can import memgauge as an installed package.
func (w *world) notebook(t *testing.T, cells []string) []shown {
	t.Helper()
	file := filepath.Join(w.home, "cells.json")
	text, err := json.Marshal(cells)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := w.unobserved(env.Notebooks(t).Path, script(t, "notebooks.py"), file)
	cmd.Env = append(cmd.Env, "MEMGAUGE_BINARY="+filepath.Join(w.home, "bin", "memgauge"))
	r := w.finish(cmd)
	var all []shown
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || len(all) != len(cells) {
		t.Fatalf("exit %d, %d of %d cells: %v\n%s\n%s", r.code, len(all), len(cells), err, r.stdout, r.stderr)
	}
	return all
}

const load = "%load_ext memgauge"

// complaint is a notebook that people have asked about, and what they are told: want[i] and not[i] are of cell i.
type complaint struct {
	name   string
	cells  []string
	want   map[int]string // a pattern that a cell's text has
	not    map[int]string // a pattern that it has not
	errors map[int]string // the exception of the user's own
}

// Each from a thread or a page; docs/notebooks.md names them.
var complaints = []complaint{
	{name: "a result stays in Out", // ipython#11204, #12879
		cells: []string{load, "import numpy as np", "%%memgauge\nnp.ones(1 << 21)", "%memgauge free",
			"%memgauge free results", "Out, _", "%memgauge free"},
		want: map[int]string{2: `Out\[3\] +\+16\.0 MiB +line 2`, 3: `results +Out\[3\] +16\.0 MiB`,
			4: `freed host 1[5-9]`,
			5: `\(\{\}, ''\)`, 6: `nothing of 64 KiB`}},
	{name: "%reset out does not free", // ipython#14129, #10082: a second reference in user_ns_hidden
		cells: []string{load, "import numpy as np, weakref\na = np.ones(1 << 21)\nw = weakref.ref(a)", "a",
			"del a", "%memgauge free", "%memgauge free results", "w() is None"},
		want: map[int]string{4: `results +Out\[3\] +16\.0 MiB`, 6: `True`}},
	{name: "a variable that was shown is its own", // scipp#2737, the other way round: nothing hidden
		cells: []string{load, "import numpy as np\na = np.ones(1 << 21)", "a", "%memgauge free"},
		want:  map[int]string{3: `nothing of 64 KiB`}},
	{name: "an exception keeps the model", // ipython#13103, #12839, pytorch#37726
		cells: []string{load, "import torch\ndef train():\n    model = torch.nn.Linear(2048, 2048)\n" +
			"    raise ValueError('x')",
			"train()", "%memgauge free", "%memgauge free errors", "%memgauge free"},
		want: map[int]string{3: `errors +sys\.last_\w+\.__traceback__ train\(\)\.model\S* +16\.\d MiB +ValueError`,
			4: `freed host 1[5-9]`, 5: `nothing of 64 KiB`},
		errors: map[int]string{2: "ValueError"}},
	{name: "an interrupted cell", // pytorch#37726, fastai#1734
		cells: []string{load, "import torch, time", "# interrupt: ready\ndef train():\n" +
			"    batch = torch.zeros(8 << 18)\n    print('ready', flush=True)\n" +
			"    while True:\n        time.sleep(0.01)\ntrain()",
			"%memgauge free", "%memgauge free all", "%memgauge free"},
		want: map[int]string{3: `errors +\S+ train\(\)\.batch +8\.\d+ MiB +KeyboardInterrupt`, 4: `freed host \d`,
			5: `nothing of 64 KiB`},
		errors: map[int]string{2: "KeyboardInterrupt"}},
	{name: "DataLoader workers of a cell that failed", // pytorch#1085, cortex#47: a local variable has their iterator
		cells: []string{load, "import torch, multiprocessing\nfrom torch.utils.data import DataLoader",
			"def train():\n    batches = iter(DataLoader(torch.zeros(10000, 4), num_workers=2))\n    next(batches)\n" +
				"    raise OSError('disk')\ntrain()",
			"%memgauge free", "print(len(multiprocessing.active_children()))",
			"%memgauge free errors workers", "print(len(multiprocessing.active_children()))"},
		want: map[int]string{3: `workers +process \d+`, 4: `2`, 6: `^0`}, errors: map[int]string{2: "OSError"}},
	{name: "a figure for each run", // ipympl#4, matplotlib#4841: figures that nobody closes
		cells: []string{load, "%matplotlib agg\nimport matplotlib.pyplot as plt, numpy as np",
			"%%memgauge\nfig = plt.figure()\nplt.plot(np.arange(1 << 18))\nfig = None", "%memgauge free",
			"%memgauge free figures", "plt.get_fignums()"},
		want: map[int]string{2: `matplotlib\.pyplot\.open_figures\S* +\+[\d.]+ MiB +line 2(?s:.*)plt\.close`,
			3: `figures +matplotlib\.pyplot\.open_figures`, 5: `\[\]`}},
	{name: "a cell that appends, run again", // the re-run cell of every second thread
		cells: []string{load, "import torch\nkept = []", "kept.append(torch.zeros(4 << 18))", "# again", "# again"},
		want: map[int]string{3: `leaves memory behind each time it runs \(run 2\): host \+[34]\S+ MiB, then \+[34]` +
			`(?s:.*)kept +\+4\.00 MiB +line 1`, 4: `run 3`}},
	{name: "a cell that loads a model, run again", // marimo#806: the new one takes its place
		cells: []string{load, "import torch", "model = torch.nn.Linear(2048, 2048)", "# again", "# again", "# again"},
		not:   map[int]string{3: `memgauge`, 4: `memgauge`, 5: `memgauge`}},
	{name: "losses with their graphs", // discuss.pytorch.org/t/43284: total += loss
		cells: []string{load, "import torch\nmodel = torch.nn.Linear(512, 512)\ntotal = 0",
			"%%memgauge\nfor _ in range(4):\n    total = total + model(torch.zeros(2048, 512)).relu().sum()",
			"%memgauge free", "%memgauge free graphs", "print(total.grad_fn)"},
		want: map[int]string{2: `left behind host \+\d+`, 3: `graphs +total +a graph of \d+ nodes`, 4: `freed host \d`,
			5: `None`}},
	{name: "hooks that are registered again", // each run of the cell adds one, with what its closure keeps
		cells: []string{load, "import torch\nmodel = torch.nn.Linear(8, 8)\ndef watch():\n" +
			"    seen = torch.zeros(4 << 18)\n    model.register_forward_hook(lambda *_: seen)",
			"watch()", "# again", "# again"},
		want: map[int]string{3: `leaves memory behind(?s:.*)model\S* +\+4\.00 MiB +In\[2\]:[45]`}},
	{name: "the cell is the user's own", // result, exception, await, Out, _, numbers of lines, unload
		cells: []string{load, "%%memgauge\nimport asyncio\nawait asyncio.sleep(0)\n40 + 2", "_, Out[2]",
			"%%memgauge\n\n1 / 0", "%memgauge nonsense", "%memgauge free nonsense", "%unload_ext memgauge",
			"_ , len(Out)", "%memgauge"},
		want: map[int]string{1: `(?s)42.*this cell left behind`, 2: `\(42, 42\)`, 3: `left behind`,
			4: `'nonsense' is not known: .*free`, 5: `free: 'nonsense' is not known`, 7: `\(\(42, 42\), 2\)`},
		errors: map[int]string{3: "ZeroDivisionError", 8: "UsageError"}},
}

func TestNotebooks(t *testing.T) {
	env.Long(t, "notebooks: a kernel for each, with torch in most")
	t.Parallel()
	for _, c := range complaints {
		t.Run(c.name, func(t *testing.T) {
			all := newWorld(t).notebook(t, c.cells)
			for i, s := range all {
				if want := c.want[i]; want != "" && !regexp.MustCompile(want).MatchString(s.Text) {
					t.Errorf("cell %d lacks %q:\n%s", i, want, s.Text)
				}
				if not := c.not[i]; not != "" && regexp.MustCompile(not).MatchString(s.Text) {
					t.Errorf("cell %d has %q:\n%s", i, not, s.Text)
				}
				if s.Error != c.errors[i] && s.Error+c.errors[i] != "UsageError" {
					t.Errorf("cell %d ended with %q, want %q\n%s", i, s.Error, c.errors[i], s.Text)
				}
			}
			if !strings.Contains(all[0].Text, "memgauge observes this kernel") {
				t.Errorf("no session was begun:\n%s", all[0].Text)
			}
		})
	}
}
