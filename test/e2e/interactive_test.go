package e2e

import (
	"strings"
	"testing"
)

// A session is asked from a prompt as a person does it: a typo taken back, Tab, SQL, a command that Ctrl-C ends,
// Ctrl-D.
func TestInteractive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mg("run", "--name", "job", "--", "python3", "-c", "import time; time.sleep(0.5)")
	out, code := onTerminal(t, w, []string{"job", "interactive"},
		typed{"job> ", "SLEECT\x03SEL\t40+2 AS n\r"},
		typed{"42", ""},
		typed{"job> ", "SELECT count(*) AS n FROM python.ten\tWHERE step > 0\r"},
		typed{"(1 row)", ""},
		typed{"job> ", "run -- sh -c 'echo sleep''ing; exec sleep 1000'\r"},
		typed{"sleeping", "\x03"},
		typed{"memgauge: ", ""},
		typed{"job> ", "use nobody\r"},
		typed{"no such session", ""},
		typed{"job> ", "\x04"})
	if code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	if !strings.Contains(out, "session job. SQL, a command") || !strings.Contains(out, "python.tensors WHERE") {
		t.Errorf("%s", out)
	}
}

// What a prompt knows: several lines of SQL, shortcuts, earlier lines of another prompt, the trainer's names, a chart,
// a pager for what does not fit; Ctrl-C gives up a statement that is not whole.
func TestInteractiveOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.start("memgauge", "run", "--name", "job", "--", "python3", "-c",
		"import time\nlosses_of_mine = [1, 2, 3]\nprint('ready', flush=True)\nwhile losses_of_mine: time.sleep(0.01)")
	until(t, "the program", func() bool { return strings.Contains(b.out.String(), "ready") })
	until(t, "its ring", func() bool { return w.do("memgauge", "job", "eval", "1").code == 0 })
	out, code := onTerminal(t, w, []string{"job", "interactive"},
		typed{"job> ", "SELECT 40 +\r"},
		typed{"... ", "2 AS n,\r"},
		typed{"... ", "'x' AS y\r"},
		typed{"(1 row)", ""},
		typed{"job> ", "SELECT (\r"},
		typed{"... ", "nonsense\x03"},
		typed{"job> ", "\\d python.steps\r"},
		typed{"heap_in_use", ""},
		typed{"job> ", "leak --thr\t5\r"}, // a flag, and a column of a table that is named later
		typed{"threshold 5", ""},
		typed{"job> ", "SELECT count(heap_in_\t) AS many FROM python.steps\r"},
		typed{"many", ""},
		typed{"job> ", ">>> sum(losses_of_m\t)\r"},
		typed{"6", ""},
		typed{"job> ", "\\chart SELECT range AS i, range * range AS square FROM range(50)\r"},
		typed{"square", ""},
		typed{"job> ", "SELECT range AS number FROM range(500)\r"},
		typed{"of 501", "q"},
		typed{"(500 rows)", ""},
		typed{"job> ", "\x04"})
	if code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	out, code = onTerminal(t, w, []string{"job", "interactive"},
		typed{"job> ", "40 +\x12\r"}, // Ctrl-R
		typed{"SELECT 40 + 2 AS n, 'x' AS y", ""},
		typed{"(1 row)", ""},
		typed{"job> ", ">>> losses_of_mine.clear()\r"},
		typed{"job> ", "\\q\r"})
	if code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	until(t, "the program to end", func() bool { return ended(b) })
}

// Lines from a pipe: the trainer is alive, code runs in it, also in several lines.
func TestInteractiveFromAPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.start("memgauge", "run", "--name", "job", "--", "python3", "-c",
		"import time\nlosses = [1, 2, 3]\nprint('ready', flush=True)\nwhile losses: time.sleep(0.01)")
	until(t, "the program", func() bool { return strings.Contains(b.out.String(), "ready") })
	until(t, "its ring", func() bool { return w.do("memgauge", "job", "eval", "1").code == 0 })
	cmd := w.command("memgauge", "job", "interactive")
	cmd.Stdin = strings.NewReader(">>> sum(losses)\n>>> for x in losses:\n    print('loss', x)\n\nquery SELECT 'a  b' \\\n  AS \"x y\"\nlist --live\nnonsense\n>>> losses.clear()\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"6\n", "loss 1\nloss 2\nloss 3\n", "x y", "a  b", `"nonsense" is not a command`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	until(t, "the program to end", func() bool { return ended(b) })
}

// How large an answer has grown stands on one line of the terminal, which moves the cursor and is no text in escapes;
// it is taken away at the end.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mg("run", "--name", "job", "--", "true")
	out, code := onTerminal(t, w, []string{"job", "query", "-o", w.file("x.csv", ""),
		"SELECT repeat('x', 100) FROM range(100000)"})
	if code != 0 || !strings.HasSuffix(out, "\r\x1b[K") || !strings.Contains(out, "\r\x1b[Kwriting x.csv: 2 MiB") ||
		strings.Contains(out, `\x1b`) {
		t.Errorf("exit %d, %q", code, out)
	}
}
