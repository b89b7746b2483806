package ask

import (
	"slices"
	"testing"

	"github.com/memgauge/memgauge/internal/cli/app"
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
	p := &prompt{a: &commands{&app.App{Families: []app.Family{Commands}}}, tables: []string{"python.steps",
		"python.objects", "process.tree"}}
	for line, want := range map[string]string{
		"whe":                     "where ",
		"SEL":                     "SELECT ",
		"t":                       "t", // tables, tensors
		"ta":                      "tables ",
		"SELECT * FROM py":        "SELECT * FROM python.",
		"SELECT * FROM python.st": "SELECT * FROM python.steps ",
		"SELECT * FROM nothing":   "SELECT * FROM nothing",
		"SELECT count(":           "SELECT count(p",
	} {
		if got := p.complete(t.Context(), line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}
