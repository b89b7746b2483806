package check

import (
	"bytes"
	"testing"
	"time"
)

// checked holds what any input may do: findings with places inside the text, fixes that can be made; no more.
func checked(t *testing.T, path string, data []byte) {
	t.Helper()
	if src, err := newSource(path, data); err == nil && len(data) < 1<<20 {
		if f, err := newFile(src); err == nil {
			f.check(Selection{})
			if most := leastSteps/2 + stepsPerByte/2*len(src.text); stepsFor(len(src.text))-f.left > most {
				t.Fatalf("%d bytes need more than %d steps", len(src.text), most)
			}
		}
	}
	began := time.Now()
	found, err := File(path, data, Selection{})
	if err != nil {
		return
	}
	for _, f := range found {
		if f.Line < 1 || f.Col < 1 || f.EndLine < f.Line && f.Cell == 0 || f.Message == "" || f.Hint == "" {
			t.Fatalf("a finding at no place: %+v", f)
		}
		for _, e := range f.Fix {
			if e.Start < 0 || e.End < e.Start || f.Cell == 0 && e.End > len(data) {
				t.Fatalf("a fix outside the text: %+v", f)
			}
		}
	}
	if path == "x.py" {
		after, _ := Apply(data, found)
		if len(after) < len(data) {
			t.Fatalf("a fix took something away")
		}
	}
	if took := time.Since(began); len(data) < 1<<16 && took > time.Minute {
		t.Fatalf("%d bytes took %v", len(data), took)
	}
}

func FuzzPython(f *testing.F) {
	for _, r := range Rules() {
		wrong, right := r.Examples()
		for _, src := range append(wrong, right...) {
			f.Add([]byte(src))
			f.Add([]byte(src)[:len(src)/2])
		}
	}
	f.Add([]byte("import torch\n" + string(bytes.Repeat([]byte("("), 5000))))
	f.Add([]byte("import torch\nx = " + string(bytes.Repeat([]byte("a."), 5000)) + "b"))
	f.Add([]byte("import torch\nx = x + x\nfor e in range(9):\n  l.backward()\n  x += x\n  y = y + l\n  " +
		"xs.append(xs)\n"))
	f.Add([]byte("\xff\xfe torch \x00"))
	f.Fuzz(func(t *testing.T, data []byte) { checked(t, "x.py", data) })
}

func FuzzNotebook(f *testing.F) {
	f.Add([]byte(`{"cells": [{"cell_type": "code", "source": "import torch\nxs = []"},` +
		`{"cell_type": "code", "source": ["for step in range(9):\n", "  l.backward()\n", "  xs.append(l)"]}]}`))
	f.Add([]byte(`{"worksheets": [{"cells": [{"cell_type": "code", "input": ["import torch\n", "!ls"]}]}]}`))
	f.Add([]byte(`{"cells": [{"cell_type": "code", "source": 3}, {}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { checked(t, "x.ipynb", data) })
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("[tool.memgauge.check]\nselect = [\"MG1\"]\nexclude = [\"a/**\", \"[\"]\n"))
	f.Add([]byte("[tool]\nmemgauge = 3"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, there, err := ParseConfig(data)
		if err == nil && there {
			c.excludes("a/b.py")
			c.For("a/b.py", Selection{})
		}
	})
}
