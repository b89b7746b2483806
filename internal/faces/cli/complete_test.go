package cli

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestCompletion asks as a shell's script does: the last word is not finished. What is offered must begin with it.
func TestCompletion(t *testing.T) {
	t.Setenv("MEMGAUGE_TARGET", "")
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	const files, directories, none = ":0", ":16", ":4"
	for _, x := range []struct {
		line      string   // a blank at its end: a new word
		has, lack []string // words that are offered, and that are not
		ends      string   // what else the shell does
	}{
		{"que", []string{"query"}, []string{"leak"}, none},
		{"4711 ", []string{"leak", "query", "eval"}, []string{"run", "attach", "node", "4711"}, none},
		{"4711 le", []string{"leak"}, []string{"lake"}, none},
		{"rank=3 que", []string{"query"}, nil, none},
		{"hub ", []string{"status", "leak", "query", "list"}, []string{"run", "completion"}, none},
		{"hub le", []string{"leak"}, nil, none},
		{"hub leak --str", []string{"--strict"}, nil, none},
		{"job=llama leak --str", []string{"--strict"}, nil, none},
		{"leak --", []string{"--threshold", "--session"}, []string{"--strict", "--ca"}, none},
		{"query --format ", []string{"csv", "parquet"}, []string{"text"}, none},
		{"query --format=c", []string{"csv"}, nil, none},
		{"check --format ", []string{"sarif"}, []string{"csv"}, none},
		{"run --trace ", []string{"auto", "all", "off"}, nil, none},
		{"run --allow ", []string{"eval", "record", "snapshot"}, nil, none},
		{"eval --at ", []string{"main", "step"}, nil, none},
		{"eval ", nil, nil, none},
		{"query ", nil, nil, none},
		{"query -o ", nil, nil, files},
		{"snapshot diff ", nil, nil, files},
		{"snapshot diff a b ", nil, nil, none},
		{"check a.py ", nil, nil, files},
		{"run -- ", nil, nil, files},
		{"leak --session ", nil, nil, directories},
		{"tables python.st", []string{"python.steps", "python.step_devices"}, []string{"python.tensors"}, none},
		{"tables python.steps python.te", []string{"python.tensors"}, nil, none},
		{"leak --interval ", nil, nil, none},
		{"attach none", nil, nil, ":8"}, // a file of that kind: .ipynb
	} {
		words := append([]string{"__complete"}, strings.Split(x.line, " ")...)
		var out bytes.Buffer
		if code := Main(words, strings.NewReader(""), &out, io.Discard); code != 0 {
			t.Errorf("%q: exit %d", x.line, code)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var offered []string
		for _, line := range lines[:len(lines)-1] {
			word, _, _ := strings.Cut(line, "\t")
			offered = append(offered, word)
		}
		if ends := lines[len(lines)-1]; ends != x.ends {
			t.Errorf("%q ends with %s, want %s", x.line, ends, x.ends)
		}
		for _, word := range x.has {
			if !slices.Contains(offered, word) {
				t.Errorf("%q: no %s in %q", x.line, word, offered)
			}
		}
		for _, word := range x.lack {
			if slices.Contains(offered, word) {
				t.Errorf("%q offers %s", x.line, word)
			}
		}
	}
}
