package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// What each shell is told to do with a line, of which the last word is not finished: load the script that memgauge
// prints, and show what it offers.
var shells = []struct{ name, script string }{
	{"bash", `. "$MEMGAUGE_SHELLS"
. <(memgauge completion bash)
COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
__start_memgauge
printf '%s\n' "${COMPREPLY[@]}"`},
	{"fish", `memgauge completion fish | source
complete -C "$argv"`},
	// zsh completes on a terminal alone, and once its prompt stands there
	{"zsh", `zmodload zsh/zpty
zpty inner zsh -f -i
zpty -w inner 'autoload -U compinit; compinit -u -D; . <(memgauge completion zsh); PROMPT="re""ady>"'
zpty -r -m inner line '*ready>*'
zpty -w -n inner "$*"$'\t\t\x15exit\n'
while zpty -r inner line; do print -r -- "$line"; done`},
}

// offered are lines, and what shells must show for them.
var offered = []struct {
	line string
	want []string
}{
	{"memgauge resn", []string{"resnet-a", "resnet-b"}},
	{"memgauge query -f ", []string{"table", "ndjson", "parquet"}},
	{"memgauge -t resn", []string{"resnet-a", "resnet-b"}},
	{"memgauge resnet-a que", []string{"query"}},
	{"memgauge hub le", []string{"leak"}},
}

// escapes are what a terminal takes for anything but text.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]|[\r\b]")

// Real shells offer a session's name and PID, the commands behind it, and a flag's values.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env = append(w.env, "MEMGAUGE_SHELLS="+env.BashCompletion(t))
	job := w.start("memgauge", "run", "--quiet", "--name", "resnet-a", "--", "sh", "-c", "echo ready; exec sleep 300")
	until(t, "the program", func() bool { return strings.Contains(job.out.String(), "ready") })
	w.mg("run", "--quiet", "--name", "resnet-b", "--", "true")
	for _, shell := range shells {
		t.Run(shell.name, func(t *testing.T) {
			program := env.Program(t, shell.name)
			lines := offered
			if shell.name == "zsh" { // it reads all its functions for each: 3 s
				lines = lines[:2]
			}
			for _, x := range lines {
				words := strings.Split(x.line, " ")
				args := append([]string{"-c", shell.script, shell.name}, words...)
				if shell.name == "fish" { // it has no name of its own among the arguments
					args = append([]string{"-c", shell.script}, words...)
				}
				r := w.do(program, args...)
				got := escapes.ReplaceAllString(r.stdout, "")
				for _, want := range x.want {
					if !strings.Contains(got, want) {
						t.Errorf("%s: no %s in %q\n%s", x.line, want, got, r.stderr)
					}
				}
			}
		})
	}
}
