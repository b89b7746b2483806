package check

import (
	"fmt"
	"strings"
	"testing"
)

// TestWorkIsLinear: twice as many functions with loops and lists of the same names are twice the steps.
func TestWorkIsLinear(t *testing.T) {
	steps := func(n int) int {
		var b strings.Builder
		b.WriteString("import torch\n")
		for i := range n {
			fmt.Fprintf(&b, "def train_%d(model, loader):\n    losses = []\n    for x in loader:\n"+
				"        loss = model(x)\n        loss.backward()\n        losses.append(loss.item())\n"+
				"    return losses\n", i)
		}
		src, err := newSource("x.py", []byte(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		f, err := newFile(src)
		if err != nil {
			t.Fatal(err)
		}
		before := f.left
		f.check(Selection{})
		return before - f.left
	}
	if one, two := steps(200), steps(400); two > one*21/10 {
		t.Errorf("%d steps for 200 functions, %d for 400", one, two)
	}
}
