package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// The steps of examples/ci/memory.yml, as a runner executes them: a pull request that changes nothing passes, one that
// leaks fails at the verdict and at the peak.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	python := env.Frameworks(t).Path
	w := newWorld(t)
	for name, text := range map[string]string{
		"bin/python": "#!/bin/sh\nexec '" + python + "' \"$@\"\n",
		"tests/memory/test_step.py": "import pytest\n@pytest.mark.limit_leak('10 KiB/step', steps=60)\n" +
			"def test_step():\n    assert [0] * 1000\n",
	} {
		path := filepath.Join(w.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	train, err := os.ReadFile(script(t, "workflow_train.py"))
	if err == nil {
		err = os.WriteFile(filepath.Join(w.home, "train.py"), train, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := workflowLines(t)
	w.check(t, lines[0], 0)
	w.check(t, "memgauge baseline save --session memory-run memgauge-baseline.json", 0)
	w.again(t)
	for _, line := range lines {
		w.check(t, line, 0)
	}
	if err := os.WriteFile(filepath.Join(w.home, "change"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.again(t)
	for _, line := range lines {
		failed := 0
		if strings.HasPrefix(line, "memgauge leak") || strings.HasPrefix(line, "memgauge baseline check") {
			failed = 3
		}
		w.check(t, line, failed)
	}
}

// workflowLines are the commands of the workflow that need no network.
func workflowLines(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Checkout(), "examples", "ci", "memory.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, command, ok := strings.Cut(line, "run: ")
		if ok && !strings.HasPrefix(command, "pip ") {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	if len(lines) != 5 {
		t.Fatalf("%d commands in the workflow: %q", len(lines), lines)
	}
	return lines
}

// again makes room for the next run's session.
func (w *world) again(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(w.home, "memory-run")); err != nil {
		t.Fatal(err)
	}
}

func (w *world) check(t *testing.T, line string, code int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(w.env, "PYTHONPATH="+filepath.Join(env.Checkout(), "python"),
		"PYTHONDONTWRITEBYTECODE=1")
	cmd.Dir = w.home
	if r := w.finish(cmd); r.code != code {
		t.Errorf("%s: exit %d, want %d\n%s%s", line, r.code, code, r.stdout, r.stderr)
	}
}
