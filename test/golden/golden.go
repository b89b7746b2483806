// Package golden compares what commands print with files. Each file is a transcript: command lines with their output,
// their errors ("!") and their exit code ("="), as a user sees them. `go test ./internal/faces/cli/NAME -run TestGolden
// -update` writes a family's files anew. A line runs in this process, at a fixed moment of a clock by which sleeping
// takes no time.
package golden

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/test/fakesession"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Local times are read before a test can begin, by goroutines that last.
func init() {
	if err := os.Setenv("TZ", "UTC"); err != nil {
		panic(err) // TZ is no wrong name
	}
}

// Case is one transcript, testdata/golden/NAME.txt.
type Case struct {
	Name  string
	Lines []string // without the word memgauge; "cat FILE" shows a file, and "< FILE" at the end is standard input
	// Real has the lines run by the machine's own clock: those that listen for signals, or wait for a process or a
	// socket.
	Real bool
	// Varies matches what the machine measures and no session can fix; it is shown as …. Only a family's last resort.
	Varies *regexp.Regexp
}

// Table is a family's cases.
type Table struct {
	Families []app.Family
	// Sessions by name: a line that begins with one asks it.
	Sessions map[string]*fakesession.Session
	// Files that lie in the directory in which the lines run: text, or what lies at a path of the repository for
	// "@PATH".
	Files map[string]string
	// Fleet are the sessions of nodes: a line that begins with hub asks them.
	Fleet *Fleet
	Cases []Case
}

// Job is the sessions that most tables have: resnet runs, done has ended, mute answers nothing.
func Job(t *testing.T) map[string]*fakesession.Session {
	t.Helper()
	live, done, mute := fakesession.Live(t), fakesession.Finished(t), fakesession.Finished(t)
	return map[string]*fakesession.Session{"resnet": live, "done": done, "mute": mute.Fail(fakesession.Silence)}
}

// Run compares each case with its file.
func Run(t *testing.T, table Table) {
	t.Helper()
	repo := repository(t)
	home := t.TempDir()
	keep(t, &app.Version, "0.2.0")
	for name, value := range map[string]string{"MEMGAUGE_HOME": filepath.Join(home, "memgauge"), "MEMGAUGE_TARGET": "",
		"HOME": home, "COLUMNS": "", "NO_COLOR": "", "MEMGAUGE_HUB": "",
		"MEMGAUGE_TOKEN_FILE": "", "MEMGAUGE_SHARED_SECRETS": "", "MEMGAUGE_TRINO": "", "AWS_ENDPOINT_URL": ""} {
		t.Setenv(name, value)
	}
	golden, err := filepath.Abs("testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			table.lay(t, repo, dir)
			t.Chdir(dir)
			var text strings.Builder
			for _, line := range c.Lines {
				text.WriteString(table.transcript(t, line, c.Real))
			}
			got := strings.NewReplacer(dir, "$PWD", home, "$HOME", repo, "$REPO").Replace(text.String())
			if c.Varies != nil {
				got = c.Varies.ReplaceAllString(got, "…")
			}
			compare(t, filepath.Join(golden, c.Name+".txt"), got)
		})
	}
}

func keep[T any](t *testing.T, place *T, value T) {
	t.Helper()
	old := *place
	*place = value
	t.Cleanup(func() { *place = old })
}

// repository is its root, from a package somewhere in it.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, none := os.Stat(filepath.Join(dir, "go.mod")); none == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the test: ", err)
	return ""
}

// lay puts the table's files into a directory.
func (table *Table) lay(t *testing.T, repo, dir string) {
	t.Helper()
	for name, text := range table.Files {
		if from, ok := strings.CutPrefix(text, "@"); ok {
			content, err := os.ReadFile(filepath.Join(repo, from))
			if err != nil {
				t.Fatal(err)
			}
			text = string(content)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// transcript runs one line, and returns it with what it gave.
func (table *Table) transcript(t *testing.T, line string, real bool) string {
	t.Helper()
	if file, ok := strings.CutPrefix(line, "cat "); ok {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprintf("$ %s\n%s\n", line, ended(string(content)))
	}
	command, input, _ := strings.Cut(line, " < ")
	args, err := split(command)
	if err != nil {
		t.Fatal(err)
	}
	stdin := []byte{}
	if input != "" {
		if stdin, err = os.ReadFile(input); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	code := -1
	run := func(ctx context.Context) { code = table.execute(ctx, args, bytes.NewReader(stdin), &stdout, &stderr) }
	if real {
		run(t.Context())
	} else {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(fakesession.Now))
			run(t.Context())
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "$ memgauge %s\n%s", line, ended(stdout.String()))
	for said := range strings.Lines(stderr.String()) {
		fmt.Fprintf(&b, "! %s", ended(said))
	}
	if code != 0 {
		fmt.Fprintf(&b, "= exit %d\n", code)
	}
	return b.String() + "\n"
}

// execute is app.Main without signals, with the session of that name.
func (table *Table) execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app.App{Stdin: stdin, Stdout: stdout, Stderr: stderr, Families: table.Families}
	if table.Fleet != nil {
		a.Reach = func(source.Way, time.Duration) (source.Fleet, error) { return table.Fleet, nil }
	}
	if len(args) > 0 && table.Sessions[args[0]] != nil {
		a.Far = table.Sessions[args[0]].Target()
	}
	return a.Report(a.Execute(ctx, args))
}

// ended is text that ends with a line's end; a line without one is marked.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "⏎\n"
}

// split takes a command line apart at blanks, as a shell does; what stands in quotes stays together.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quote, begun := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("%q: a quote is open", line)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// compare fails with the first lines that differ.
func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if string(want) == got {
		return
	}
	a, b := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	t.Errorf("%s:%d differs; -update writes it anew\nwant %s\ngot  %s", path, i+1, near(a, i), near(b, i))
}

// near are some lines from i on.
func near(lines []string, i int) string {
	return strings.Join(lines[min(i, len(lines)):min(i+6, len(lines))], "\n     ")
}
