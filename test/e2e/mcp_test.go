package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// assistant is a client of memgauge mcp, by the SDK.
type assistant struct {
	*testing.T
	session *mcp.ClientSession
}

func newAssistant(t *testing.T, cmd *exec.Cmd) assistant {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return assistant{t, s}
}

// ask gives the text of an answer, and whether it is one of failure.
func (a assistant) ask(tool string, arguments map[string]any) (text string, failed bool) {
	a.Helper()
	r, err := a.session.CallTool(a.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range r.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text += c.Text + "\n"
		}
	}
	return text, r.IsError
}

// wants asks, and looks for something in the answer.
func (a assistant) wants(failed bool, want, tool string, arguments map[string]any) string {
	a.Helper()
	text, is := a.ask(tool, arguments)
	if is != failed || !strings.Contains(text, want) {
		a.Errorf("%s %v: failed %v, without %q:\n%.2000s", tool, arguments, is, want, text)
	}
	return text
}

func (a assistant) tools() (names []string) {
	a.Helper()
	for tool, err := range a.session.Tools(a.Context(), nil) {
		if err != nil {
			a.Fatal(err)
		}
		names = append(names, tool.Name)
		if reads := tool.Annotations.ReadOnlyHint; reads == (tool.Name == "eval") {
			a.Errorf("%s: read-only %v", tool.Name, reads)
		}
	}
	slices.Sort(names)
	return names
}

func (a assistant) close() {
	a.Helper()
	if err := a.session.Close(); err != nil { // waits for the process and its exit code
		a.Error(err)
	}
}

// An assistant asks a real session by the SDK: all tools answer, nothing is changed, long answers are cut and say so.
func TestAssistantAsksASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := keeps(t, w)
	a := newAssistant(t, w.command("memgauge", "mcp"))
	const all = "backtrace check fix leak query report sessions tables tensors where"
	if got := strings.Join(a.tools(), " "); got != all {
		t.Errorf("tools: %s", got)
	}
	a.wants(false, "job", "sessions", nil)
	a.wants(false, "python.steps", "tables", nil)
	a.wants(false, "heap_in_use", "tables", map[string]any{"table": "python.steps", "session": "job"})
	a.wants(false, "[1 rows]", "query", map[string]any{"sql": "SELECT max(step) AS step FROM python.steps"})
	text := a.wants(false, "[cut: the first 5 rows, ", "query",
		map[string]any{"sql": "FROM range(100000000)", "limit": 5})
	if n := strings.Count(text, `"range":`); n != 5 {
		t.Errorf("%d rows of 5", n)
	}
	if text = a.wants(false, "[cut: the first ", "query",
		map[string]any{"sql": "SELECT repeat('x', 1000) AS x FROM range(1000)", "limit": 1000}); len(text) > 50<<10 {
		t.Errorf("%d bytes", len(text))
	}
	a.wants(true, "DROP statements are not run", "query", map[string]any{"sql": "DROP TABLE python.steps"})
	a.wants(true, `Referenced column "nothing" not found`, "query",
		map[string]any{"sql": "SELECT nothing FROM python.steps"})
	a.wants(false, "HOST", "where", nil)
	a.wants(false, "kept", "tensors", map[string]any{"top": 3})
	a.wants(false, "keeps.py", "backtrace", map[string]any{"locals": true})
	a.wants(false, "host", "leak", nil)
	a.wants(false, `"session"`, "report", nil)
	a.wants(true, "is not below the directory", "check", map[string]any{"paths": []string{"/etc"}})
	a.wants(true, "is not below the directory", "check", map[string]any{"paths": []string{"../../internal"}})
	a.wants(true, "--fix", "check", map[string]any{"paths": []string{"--fix"}})
	w.file("code/train.py", "import torch\n\n\ndef train(model, loader):\n    total = 0\n    for x in loader:\n"+
		"        loss = model(x)\n        loss.backward()\n        total += loss\n")
	a.wants(false, "code/train.py:9:9: MG101", "check", map[string]any{"paths": []string{"code"}})
	a.wants(true, "no such session", "leak", map[string]any{"session": "nosuch"})
	a.wants(true, "no such session", "leak", map[string]any{"session": "--help"})
	a.wants(true, "unknown tool", "eval", map[string]any{"code": "kept.clear()"})
	a.close()

	a = newAssistant(t, w.command("memgauge", "job", "mcp", "--allow-eval"))
	if got := a.tools(); !slices.Contains(got, "eval") || slices.Contains(got, "sessions") {
		t.Errorf("tools: %v", got)
	}
	a.wants(false, "True", "eval", map[string]any{"code": "len(kept) > 5"})
	a.wants(true, "ZeroDivisionError", "eval", map[string]any{"code": "1/0"})
	a.wants(false, "-3", "eval", map[string]any{"code": "-3"})
	a.wants(true, "started for one session", "leak", map[string]any{"session": "other"})
	until(t, "the verdict", func() bool {
		text, _ := a.ask("leak", nil)
		return strings.Contains(text, "LEAK  host")
	})
	a.wants(false, "What is asked", "fix", map[string]any{"prompt": true})
	a.wants(false, "LEAK  host", "fix", nil)
	w.file("stop", "")
	run.wait(t)
	a.wants(false, "LEAK  host", "leak", nil)
	a.wants(true, "no observed process of the session is alive", "backtrace", nil)
	a.close()

	a = newAssistant(t, w.command("memgauge", "mcp", "--session", filepath.Join(w.home, "job")))
	a.wants(false, "LEAK  host", "leak", nil)
	a.close()
	if r := w.do("memgauge", "nosuch", "mcp"); r.code != 1 || r.stdout != "" ||
		!strings.Contains(r.stderr, "no such session") {
		t.Errorf("no such session: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
