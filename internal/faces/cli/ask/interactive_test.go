package ask

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	typed "github.com/memgauge/memgauge/internal/base/prompt"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		"leak --json":                     {"leak", "--json"},
		"  oom  --devices 0\t1 ":          {"oom", "--devices", "0", "1"},
		`query "SELECT 'a  b'" -f csv`:    {"query", "SELECT 'a  b'", "-f", "csv"},
		`run -- sh -c 'echo "x"; exit'`:   {"run", "--", "sh", "-c", `echo "x"; exit`},
		`a"b c"d ''`:                      {"ab cd", ""},
		"":                                nil,
		"profile --plot 'my picture.png'": {"profile", "--plot", "my picture.png"},
	} {
		got, err := words(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q %v", line, got, err)
		}
	}
	for _, line := range []string{`"`, `leak 'x`, `a "b' c`} {
		if got, err := words(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestCompletion(t *testing.T) {
	p := &talk{a: &commands{&app.App{Families: []app.Family{Commands}}}, tables: []typed.Table{
		{Name: "python.steps", Columns: []string{"step"}}, {Name: "python.objects", Columns: []string{"holder"}},
		{Name: "process.tree", Columns: []string{"ppid"}}}}
	for line, want := range map[string]string{
		"whe":                     "where ",
		"SEL":                     "SELECT ",
		"t":                       "t", // tables, tensors
		"ta":                      "tables ",
		"list --js":               "list --json ",
		"SELECT * FROM py":        "SELECT * FROM python.",
		"SELECT * FROM python.st": "SELECT * FROM python.steps ",
		"SELECT * FROM nothing":   "SELECT * FROM nothing",
		"SELECT count(hol":        "SELECT count(holder ",
		">>> anything":            ">>> anything", // nobody to ask
	} {
		if got := p.complete(t.Context(), line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

func TestChartOf(t *testing.T) {
	row := func(texts ...string) (list []json.RawMessage) {
		for _, s := range texts {
			list = append(list, json.RawMessage(s))
		}
		return list
	}
	c, err := chartOf(row(`{"step":3,"rss":10,"name":"x","heap":null}`, `{"step":4,"rss":12,"name":"y","heap":7}`))
	if err != nil || c.Across != "step" || len(c.Panels[0].Series) != 2 || c.Panels[0].Series[1].Name != "heap" ||
		c.Begin != 3 {
		t.Errorf("%+v %v", c, err)
	}
	c, err = chartOf(row(`{"ts":"2026-01-02T03:04:05Z","n":1}`, `{"ts":"2026-01-02T03:04:07.5Z","n":2}`))
	if err != nil || c.Across != "s since 03:04:05 UTC" || c.Panels[0].Series[0].X[1] != 2.5 {
		t.Errorf("%+v %v", c, err)
	}
	for _, rows := range [][]json.RawMessage{nil, row(`{"a":"x","b":1}`), row(`{"a":1}`)} {
		if _, err := chartOf(rows); err == nil {
			t.Errorf("%s is drawn", rows)
		}
	}
}

func TestInColumns(t *testing.T) {
	if got := inColumns([]string{"a", "bbb", "cc"}, 12); got != "a    bbb\ncc\n" {
		t.Errorf("%q", got)
	}
}

// What is neither a command nor SQL may be meant for the trainer: the hint is of the prompt, not of the shell.
func TestUnknownLineTellsOfThePrompt(t *testing.T) {
	var said strings.Builder
	a := &commands{&app.App{Families: []app.Family{Commands}, Stdout: io.Discard, Stderr: &said}}
	p := &talk{a: a}
	if p.answer(t.Context(), "print(1)") {
		t.Error("the prompt ends")
	}
	want := "memgauge: \"print(1)\" is not a command\n" +
		"hint: help tells what a line may be; >>> CODE runs Python in the trainer\n"
	if said.String() != want {
		t.Errorf("%s", said.String())
	}
}
