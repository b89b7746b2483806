package check

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// programs are those of test/accuracy that leak, by folder.
const programs = "../../../test/accuracy/corpus/"

const tensors, objects, graph = "retained_tensors", "retained_objects", "autograd_graph"

// curable are programs with what a run of them has shown, and the lines that are new in them then.
var curable = []struct {
	program string
	leak    Leak
	want    string
	sure    bool
}{
	{"wild/programs/w002.py", Leak{Class: tensors, Holder: "main().recent.rows",
		Held: "deque, 7,510 items, +7.96 per step",
		Line: 30}, "self.rows = collections.deque(maxlen=700)", false},
	{"wild/programs/w004.py", Leak{Class: tensors, Holder: "main().pool.states",
		Held: "list, 889 items, +1.02 per step",
		Line: 29}, "del self.states[:-self.capacity]", true},
	{"wild/programs/w006.py", Leak{Class: tensors, Holder: "main().window.rows",
		Held: "list, 959 items, +1.08 per step",
		Line: 28}, "del self.rows[:-90]", false},
	{"wild/programs/w008.py", Leak{Class: tensors, Holder: "main().table", Held: "dict, 757 items, +1.03 per step",
		Line: 28}, "if len(table) > 70:\ndel table[next(iter(table))]  # the oldest", false},
	{"wild/programs/w011.py", Leak{Class: "native_heap", Holder: "__main__.native_filter", Held: "libc.malloc",
		Line: 44}, "libc.free(ctypes.c_void_p(block))", false},
	{"wild/programs/w013.py", Leak{Class: graph, Holder: "main().center.mean", Line: 27},
		"self.mean = 0.95 * self.mean.detach() + 0.05 * hidden.mean(0)", true},
	{"wild/programs/w015.py", Leak{Class: graph, Holder: "main().prototypes", Line: 35},
		"prototypes = move(prototypes.detach(), hidden, y)", true},
	{"wild/programs/w017.py", Leak{Class: tensors, Holder: "__main__.Clips.__getitem__",
		Held: "lru_cache, 854 items, +1.09 per step", Line: 22}, "@functools.lru_cache(maxsize=80)", false},
	{"wild/programs/w021.py", Leak{Class: objects, Holder: "main().stream",
		Held: "StringIO, 4.47 MiB, +5.43 KiB per step",
		Line: 27, Grown: 5 << 20}, "if stream.tell() > 500000:\nstream.seek(0)\nstream.truncate()", false},
	{"wild/programs/w023.py", Leak{Class: objects, Holder: "main().recorder.buffer",
		Held: "BytesIO, 7.65 MiB, +8.17 KiB per step", Line: 24, Grown: 8 << 20},
		"if buffer.tell() > 800000:\nbuffer.seek(0)\nbuffer.truncate()", false},
	{"wild/programs/w025.py", Leak{Class: "worker_growth", Holder: "multiprocessing.Manager().list",
		Held: "list, 812,160 items, +2.11e+03 per step", Steps: 890}, "del results[:-80]", false},
	{"wild/programs/w029.py", Leak{Class: tensors, Holder: "main().source", Held: "list, 172 items, +1.62 per step",
		Line: 31}, "source = itertools.chain.from_iterable(stream(4000) for _ in itertools.count())", false},
	{"wild/programs/w031.py", Leak{Class: graph, Holder: "main().penalty.total", Line: 27, Script: true},
		"self.total = self.total + penalty.detach()", true},
	{"wild/programs/w033.py", Leak{Class: objects, Holder: "main().metrics.table", Line: 27, Steps: 990},
		"self.table = np.concatenate([self.table, row])[-90:]", false},
	{"wild/programs/w037.py", Leak{Class: tensors, Holder: "hook().module._forward_hooks", Line: 26},
		"if handle is not None:\nhandle.remove()", false},
	{"wild/programs/w041.py", Leak{Class: tensors, Holder: "weakref.finalize._registry", Line: 29},
		"self.finalizer = None", false},
	{"wild/programs/w043.py", Leak{Class: tensors, Holder: "main().outbox.queue",
		Held: "deque, 990 items, +1 per step"},
		"outbox = queue.Queue(maxsize=90)", false},
	{"wild/programs/w045.py", Leak{Class: tensors, Holder: "main().gallery.rows",
		Held: "list, 240 items, +0.25 per step",
		Line: 25, Views: true}, "self.rows.append(x[0].clone())\ndel self.rows[:-20]", false},
	{"programs/c003.py", Leak{Class: objects, Holder: "train().replay.storage", Line: 17},
		"del self.storage[:-self.capacity]", false},
	{"programs/c006.py", Leak{Class: tensors, Holder: "__main__.activations['pool']", Line: 12, Script: true},
		"del activations[name][:-1]", true},
	{"programs/c018.py", Leak{Class: "gc_cycles", Holder: "Episode.steps[*].episode"}, "gc.enable()", false},
	{"hard/programs/h002.py", Leak{Class: tensors, Holder: "main().rehearsal.memory", Line: 30, Script: true},
		"del self.memory[:-MEMORY_SIZE]", false},
	{"hard/programs/h027.py", Leak{Class: tensors, Holder: "compare().module._forward_hooks", Line: 29},
		"if handle is not None:\nhandle.remove()", false},
	{"hard/programs/h053.py", Leak{Class: graph, Holder: "main().balance.means['kind']", Line: 14},
		"self.means[name] = " +
			"self.decay * self.means.get(name, loss).detach() + (1 - self.decay) * loss", false},
}

// TestCures: of what a run of a leaking program has shown, the change of its text is the one that ends the leak; the
// same runs with the change were healthy, and printed the same losses.
func TestCures(t *testing.T) {
	for _, c := range curable {
		t.Run(c.program, func(t *testing.T) {
			c.leak.Script = c.leak.Script || c.sure
			data := read(t, c.program)
			list, err := Cures(filepath.Base(c.program), data, c.leak)
			if err != nil || len(list) == 0 {
				t.Fatalf("%d changes, %v", len(list), err)
			}
			if got := added(data, list[0].After); got != c.want || list[0].Sure() != c.sure {
				t.Errorf("%s\nlook: %s\n%s\nwant, sure %v:\n%s", list[0].What, list[0].Look, got, c.sure, c.want)
			}
		})
	}
}

func read(t *testing.T, program string) []byte {
	t.Helper()
	data, err := os.ReadFile(programs + program)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// added are the lines of a text that another one has not, without indentation.
func added(before, after []byte) string {
	var lines []string
	for line := range strings.Lines(Diff("a.py", before, after)) {
		if strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++") {
			lines = append(lines, strings.TrimSpace(line[1:]))
		}
	}
	return strings.Join(lines, "\n")
}

// TestCuresKeepTheText: ends of lines, tabs and comments stay. Texts that can't be read in full stay as they are.
func TestCuresKeepTheText(t *testing.T) {
	text := "import torch\r\nkept = []  # of all steps\r\nfor step in range(9):\r\n\tkept.append(torch.ones(9)) # " +
		"one\r\n"
	list, err := Cures("a.py", []byte(text), Leak{Class: "retained_tensors", Holder: "__main__.kept",
		Held: "list, 50 items, +1 per step", Line: 4})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d changes, %v", len(list), err)
	}
	if want := text[:len(text)-2] + "\r\n\tdel kept[:-5]\r\n"; string(list[0].After) != want {
		t.Errorf("it became %q, want %q", list[0].After, want)
	}
	for name, broken := range map[string]string{"a.py": "def f(:\n", "b.ipynb": "{}",
		"c.py": "kept.append(1)\rx = 1\n"} {
		if list, _ := Cures(name, []byte(broken), Leak{Class: "retained_objects", Holder: "__main__.kept",
			Line: 1}); len(
			list) > 0 {
			t.Errorf("%q: %s", broken, list[0].After)
		}
	}
}

// TestNoCure: where a change would break the program, or no bound helps, there is none.
func TestNoCure(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		leak Leak
	}{
		"an iterator that has ended": {"import itertools\nit = iter(f())\nfor x in itertools.cycle(it):\n    g(x)\n",
			Leak{Class: "retained_objects", Holder: "__main__.it", Line: 3}},
		"a sum of which gradients are asked": {"import torch\ntotal = 0\nfor x in loader:\n    total = total + " +
			"model(x)\n" +
			"total.backward()\n", Leak{Class: "autograd_graph", Holder: "__main__.total", Line: 4}},
		"a block that is returned": {"import ctypes\nlibc = ctypes.CDLL(None)\ndef f():\n    p = libc.malloc(9)\n" +
			"    return p\n", Leak{Class: "native_heap", Holder: "__main__.f", Line: 4}},
		"a block that is kept": {"import ctypes\nlibc = ctypes.CDLL(None)\ndef f(o):\n    p = libc.malloc(9)\n" +
			"    o.p = p\n", Leak{Class: "native_heap", Holder: "__main__.f", Line: 4}},
		"a finalizer that does something": {"import weakref\nclass A:\n    def __init__(self):\n" +
			"        weakref.finalize(self, self.close)\n    def close(self):\n        send(self.data)\n",
			Leak{Class: "retained_objects", Holder: "weakref.finalize._registry", Line: 4}},
		"a key that does something": {"kept = {}\nfor x in loader:\n    kept[f()].append(x)\n",
			Leak{Class: "retained_objects", Holder: "__main__.kept", Line: 3}},
	} {
		list, err := Cures("a.py", []byte(c.text), c.leak)
		if err != nil || len(list) > 0 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

func FuzzCures(f *testing.F) {
	for _, p := range []string{"wild/programs/w002.py", "wild/programs/w037.py", "hard/programs/h053.py"} {
		data, err := os.ReadFile(programs + p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "main().recent.rows", "list, 90 items", 30)
	}
	f.Fuzz(func(t *testing.T, data []byte, holder, held string, line int) {
		for _, class := range []string{"retained_objects", "autograd_graph", "native_heap", "gc_cycles"} {
			list, _ := Cures("a.py", data, Leak{Class: class, Holder: holder, Held: held, Line: line, Steps: 100,
				Grown: 100})
			for _, c := range list {
				if bytes.Equal(c.After, data) || !parses(c.After) {
					t.Errorf("%s: %q", c.What, c.After)
				}
			}
		}
	})
}
