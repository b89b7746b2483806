package check

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestMagics: only what begins a statement is IPython's; what goes on with one is Python.
func TestMagics(t *testing.T) {
	for _, c := range []struct{ cell, want string }{
		{"%time train()\nx = 1", "#time train()\nx = 1\n"},
		{"print('%d'\n      % (n))", "print('%d'\n      % (n))\n"},
		{"x = [a\n  % b]\n%matplotlib inline", "x = [a\n  % b]\n#matplotlib inline\n"},
		{"x = a \\\n  % b", "x = a \\\n  % b\n"},
		{"s = '''\n!important\n'''\n!ls", "s = '''\n!important\n'''\n#ls\n"},
		{"s = \"it's (\"  # (\n!ls", "s = \"it's (\"  # (\n#ls\n"},
		{"%%bash\nfor f in *; do\n  echo $f\ndone", "#%bash\n#or f in *; do\n  #cho $f\n#one\n"},
		{"%%time\nx = 1", "#%time\nx = 1\n"},
	} {
		cell := map[string]any{"cell_type": "code", "source": c.cell}
		data, err := json.Marshal(map[string]any{"cells": []any{cell}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSource("a.ipynb", data)
		if err != nil {
			t.Fatal(err)
		}
		if string(s.text) != c.want {
			t.Errorf("%q is read as %q, not %q", c.cell, s.text, c.want)
		}
	}
}

// TestLoopOfAnotherCell: an optimizer behind a loop that ends in % of two lines is made once.
func TestLoopOfAnotherCell(t *testing.T) {
	cells := []string{"import torch\ndef train(net, loader, optimizer):\n    for x in loader:\n" +
		"        net(x).sum().backward()\n        optimizer.step()\n        print('%d'\n          % (3))",
		"optimizer = torch.optim.Adam(net.parameters())\ntrain(net, loader, optimizer)"}
	var list []any
	for _, c := range cells {
		list = append(list, map[string]any{"cell_type": "code", "source": c})
	}
	data, err := json.Marshal(map[string]any{"cells": list})
	if err != nil {
		t.Fatal(err)
	}
	findings, err := File("a.ipynb", data, Selection{})
	if err != nil || slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule.ID == "MG410" }) {
		t.Errorf("%v, %v", findings, err)
	}
}
