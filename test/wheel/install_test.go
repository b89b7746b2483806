package wheel

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// place is a fresh virtual environment with the wheel in it.
type place struct {
	python env.Python
	dir    string // below /tmp, so it has this path in the Python's own root too
	env    []string

	emulated bool // its Python is for another processor
}

// venv makes a place without the wheel. Some Pythons here have no pip; all can run it from its own wheel, which every
// CPython brings along.
func venv(t *testing.T, p env.Python) *place {
	t.Helper()
	dir := t.TempDir()
	at := &place{python: p, dir: dir, env: append(os.Environ(), "MEMGAUGE_HOME="+dir+"/home", "HOME="+dir,
		"PATH="+dir+"/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE=1",
		"PIP_DISABLE_PIP_VERSION_CHECK=1")}
	at.must(t, p.Path, "-m", "venv", "--without-pip", dir+"/venv")
	return at
}

// install makes a place and installs the wheel with pip.
func install(t *testing.T, p env.Python) *place {
	t.Helper()
	at := venv(t, p)
	link(t, wheel(t), at.dir)
	link(t, bundledPip(t, p), at.dir)
	at.must(t, "sh", "-c", `PYTHONPATH=$(echo "$0"/pip-*.whl) "$0/venv/bin/python" -m pip install -q --no-index \
		--no-cache-dir "$0"/memgauge-*.whl`, at.dir)
	return at
}

// link brings a file into a directory: another root may not have its own.
func link(t *testing.T, path, dir string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// bundledPip is the wheel of pip that comes with a CPython, for one in another root with the newest CPython here.
func bundledPip(t *testing.T, p env.Python) string {
	t.Helper()
	if p.Root != "" {
		all := env.CPythons(t)
		p = all[len(all)-1]
	}
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(p.Path), "../lib/python3*/ensurepip/_bundled/pip-*.whl"))
	if len(found) == 0 {
		env.Missing(t, "venv", p.Path+" comes without pip")
	}
	return found[0]
}

// command runs a command in the place's root, with its environment.
func (p *place) command(t *testing.T, args ...string) *exec.Cmd {
	args = append([]string{"env"}, args...) // which looks for the command in the place's PATH
	if p.python.Root != "" {
		way := map[bool]string{false: "inchroot", true: "emulated"}[p.emulated]
		args = append([]string{filepath.Join(env.Checkout(), "scripts", way), p.python.Root}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env, cmd.Dir = p.env, p.dir
	return cmd
}

// must runs a command that has to succeed and returns what it prints.
func (p *place) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// classes are CONTRACT's: they find the command and the library that were installed with them, though PATH leads to
// neither.
const classes = `
import os, sys, memgauge
from memgauge import (MemoryDebugger, MemoryProfiler, OOMDetector, MemoryLeakDetector, FragmentationAnalyzer,
                      DistributedMemoryMonitor, allocator, feed)
prefix = os.path.realpath(sys.prefix)
assert os.path.realpath(memgauge.__file__).startswith(prefix), memgauge.__file__
assert os.path.realpath(feed.binary()).startswith(prefix), feed.binary()
assert os.path.realpath(allocator.library().path).startswith(prefix), allocator.library().path
assert not feed.observed()
with MemoryProfiler(sampling_interval=0.05, devices=["host"]) as profiler:
    pass
assert profiler.generate_report()["devices"], "an empty report"
with OOMDetector(devices=["host"]) as detector:
    detector.get_status_report()
with FragmentationAnalyzer(devices=["host"]) as analyzer:
    analyzer.analyze()
assert memgauge.zeros((4, 4), device="cpu").shape == (4, 4)
print(memgauge.__version__)
`

// TestInstalled installs the wheel with pip into fresh virtual environments, and uses it.
func TestInstalled(t *testing.T) {
	wheel(t)
	for _, p := range pythons(t) {
		t.Run(p.Name(), func(t *testing.T) { use(t, install(t, p)) })
	}
}

// use does in a place what docs/install.md shows, and what it says.
func use(t *testing.T, at *place) {
	t.Helper()
	want := "memgauge version " + built.version + "\n"
	if got := at.must(t, "memgauge", "--version"); got != want {
		t.Errorf("memgauge --version prints %q, want %q", got, want)
	}
	if got := at.must(t, at.dir+"/venv/bin/python", "-m", "memgauge", "--version"); got != want {
		t.Errorf("python -m memgauge --version prints %q, want %q", got, want)
	}
	got := at.must(t, "env", "PATH=/usr/bin:/bin", at.dir+"/venv/bin/python", "-c", classes)
	if got != built.version+"\n" {
		t.Errorf("memgauge.__version__ is %q, want %q", got, built.version)
	}
	for _, c := range examples(t) {
		got := at.must(t, "sh", "-c", c.line+" 2>&1")
		if !c.printed.MatchString(got) {
			t.Errorf("$ %s\n%swant\n%s", c.line, got, c.printed)
		}
	}
	// A function of a newer C++ runtime, which DuckDB calls for a pattern that begins with a text.
	got = at.must(t, "memgauge", "first", "query", "-f", "csv",
		"SELECT count(*) > 0 AS seen FROM memgauge.events WHERE regexp_matches(name, 'en[c-e]')")
	if got != "seen\ntrue\n" {
		t.Errorf("a pattern's answer is %q", got)
	}
}

// example is a command that a document shows, and what it prints; a line "…" stands for any lines.
type example struct {
	line    string
	printed *regexp.Regexp
}

func examples(t *testing.T) (all []example) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Checkout(), "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for _, c := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			line, want, _ := strings.Cut(strings.TrimSuffix(c, "\n")+"\n", "\n")
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…\n", "(?s:.*)")
			all = append(all, example{line, regexp.MustCompile("^" + pattern + "$")})
		}
	}
	if len(all) < 3 {
		t.Fatalf("docs/install.md has %d examples", len(all))
	}
	return all
}

// other is what stands for a wheel of another version: a package that is installed, and the command of this checkout.
const other = "9.9.9"

func (p *place) pretendOther(t *testing.T) {
	t.Helper()
	p.must(t, "sh", "-c", `cd "$0"/venv/lib/python3*/site-packages/memgauge &&
		echo 'VERSION = "`+other+`"' >_version.py`, p.dir)
}

// TestWhichCopyRuns: an observed process sees one whole package, never half of each, though the one that is installed
// is of another version than the command that observes.
func TestWhichCopyRuns(t *testing.T) {
	wheel(t)
	all := env.CPythons(t)
	at := install(t, all[len(all)-1])
	at.pretendOther(t)
	tell := `import memgauge, sys; from memgauge import feed
print(memgauge.__version__, feed.observed(), any("site-packages" in p for p in sys.path))`
	python := at.dir + "/venv/bin/python"
	for _, c := range []struct {
		what, want string
		command    []string
	}{
		{"by itself", other + " False True", []string{python, "-c", tell}},
		{"observed", built.version + " True True", []string{"memgauge", "run", "--quiet", "--", python, "-c",
			"import time; time.sleep(1)\n" + tell}}, // after 0.2 s the agent has a ring
		{"in an observed job, but not observed", other + " False True",
			[]string{"memgauge", "run", "--quiet", "--", python, "-E", "-c", tell}},
	} {
		if got := strings.TrimSpace(at.must(t, c.command...)); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	report := `import memgauge, time; time.sleep(1)
with memgauge.MemoryProfiler(sampling_interval=0.05) as p: time.sleep(0.5)
print(sorted(p.generate_report())[:1])`
	if got := at.must(t, "memgauge", "run", "--quiet", "--", python, "-c", report); !strings.HasPrefix(got, "['") {
		t.Errorf("a report in an observed process: %s", got)
	}
	t.Run("attached", func(t *testing.T) { attachBeside(t, at) })
}

// attachBeside: an agent that comes into a process with an installed package leaves that one as it is, whether the
// program has imported it or could; and nothing of it is gone after a detach.
func attachBeside(t *testing.T, at *place) {
	t.Helper()
	env.Root(t) // the right to trace a process that is no child
	for _, first := range []string{"import memgauge", ""} {
		t.Run(strings.TrimSpace("after "+first), func(t *testing.T) {
			cmd := at.command(t, at.dir+"/venv/bin/python", "-c", first+`
import sys
print('ready', flush=True)
for line in sys.stdin: print(eval(line), flush=True)`)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			ask := func(code string) string {
				fmt.Fprintln(stdin, code)
				lines.Scan()
				return lines.Text()
			}
			const state = `(__import__("memgauge").__version__, __import__("memgauge.feed").feed.observed(), sys.path)`
			var before string
			if first != "" {
				before = ask(state)
			}
			pid := strconv.Itoa(cmd.Process.Pid)
			at.must(t, "memgauge", "attach", pid)
			during := ask(state)
			if !strings.HasPrefix(during, "('"+other+"', True, ") {
				t.Errorf("attached: %s", during)
			}
			if got := ask(`__import__("memgauge").step()`); got != "True" {
				t.Errorf("memgauge.step() says %s", got)
			}
			if got := at.must(t, "sh", "-c", "memgauge $0 eval __name__ 2>/dev/null", pid); got != "'__main__'\n" {
				t.Errorf("eval prints %q", got)
			}
			at.must(t, "memgauge", "detach", pid)
			after := ask(state)
			if !strings.HasPrefix(after, "('"+other+"', False, ") || before != "" && after != before {
				t.Errorf("detached: %s\nbefore: %s", after, before)
			}
			_ = stdin.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &stderr)
			}
		})
	}
}
