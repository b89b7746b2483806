package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// What differs between two runs of the same command: numbers, ids, and the padding that follows from them; and the
// interval of a rate, which is left out where both ends read the same.
var changing = regexp.MustCompile(`\([0-9][^()]* to [0-9][^()]*\)|` +
	`[0-9a-f]{6,}|[0-9]+([.,:T-][0-9]+)*Z?|[ \t]+|-{2,}|MiB|GiB|[mµ]s`)

func masked(s string) string { return changing.ReplaceAllString(s, "") }

// TestReadme: every console block of the README is run, in order, and must print what the README says but for figures.
func TestReadme(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	runDocument(t, filepath.Join(root, "README.md"), root, 4)
}

// TestFirstHour is the same of the tutorial, in a folder that has the examples beside it.
func TestFirstHour(t *testing.T) {
	env.Long(t, "every command of a guide, with several trainings to their end")
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	runDocument(t, filepath.Join(root, "docs", "first-hour.md"), dir, 6)
}

// waits is what a busy machine makes a command say, and no document has.
var waits = regexp.MustCompile(`(?m)^memgauge: waiting until .*\n`)

// runDocument runs the console blocks of a document in a folder.
func runDocument(t *testing.T, path, dir string, least int) {
	t.Helper()
	w := newWorld(t)
	w.file("bin/python", "#!/bin/sh\nexec "+env.Torch(t).Path+" \"$@\"\n") // a link would lead out of its venv
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for _, c := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			line, want, _ := strings.Cut(c, "\n")
			cmd := w.command("sh", "-c", line+" 2>&1")
			cmd.Dir = dir
			cmd.Env = append(w.env, "HOME="+w.home)
			got := w.finish(cmd)
			fine := got.code == 0 || got.code == 1 && strings.HasPrefix(line, "memgauge run") // what it runs may fail
			got.stdout = waits.ReplaceAllString(got.stdout, "")
			if !fine || masked(strings.TrimSpace(got.stdout)) != masked(strings.TrimSpace(want)) {
				t.Errorf("$ %s\nexit %d, printed\n%swant\n%s", line, got.code, got.stdout, want)
			}
			commands++
		}
	}
	if commands < least {
		t.Errorf("only %d commands found", commands)
	}
}
