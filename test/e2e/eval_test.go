package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// TestStress is the short form of test/bench/stress.py: questions at random moments to trainings that are mostly in
// C++.
func TestStress(t *testing.T) {
	env.Long(t, "a storm of processes, threads and records")
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	script, err := filepath.Abs("../bench/stress.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := w.command(python, script, "--python", python, "--memgauge", filepath.Join(w.home, "bin", "memgauge"),
		"--seconds", "20", "--side-by-side", "1", "--steps", "60", "--life", "10", "--shapes", "plain,hooks",
		"--blocked", "input,lock")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	timer := time.AfterFunc(5*patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var got struct{ Counts map[string]int }
	if err := json.Unmarshal([]byte(out.String()[strings.Index(out.String(), "{"):]), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	c := got.Counts
	if c["deaths"] != 0 || c["losses differ"] != 0 || c["evals"] < 5 ||
		c["blocked mains answered within 1 s"] != c["blocked mains asked"] {
		t.Errorf("%s", out.String())
	}
	t.Logf("%v", c)
}

// TestEvalPlaces: which thread stands still, what is told of it, and whose requests are events.
func TestEvalPlaces(t *testing.T) {
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	session, out := filepath.Join(w.home, "s"), filepath.Join(w.home, "out")
	victim, err := filepath.Abs("testdata/victim.py")
	if err != nil {
		t.Fatal(err)
	}
	run := w.start("memgauge", "run", "--quiet", "--session", session, "--", python, victim, "plain", "1000000", out)
	until(t, "the training", func() bool { return strings.Contains(run.out.String(), "ready") })
	place := func(args ...string) string {
		t.Helper()
		var doc struct {
			Processes []struct {
				Place   string
				Outcome string
				Value   string
			}
		}
		text := w.mg(append([]string{session, "eval", "--json", "--timeout", "60s"}, args...)...)
		if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Processes) != 1 ||
			doc.Processes[0].Outcome != "ok" {
			t.Fatalf("%v\n%s", err, text)
		}
		return doc.Processes[0].Place + " " + doc.Processes[0].Value
	}
	still := "a = step; __import__('time').sleep(0.2); b = step; a == b"
	if got := place("--at", "step", still); got != "step True" {
		t.Errorf("--at step: %s", got)
	}
	if got := place(still); got != "main True" && got != "step True" {
		t.Errorf("by default: %s", got)
	}
	if got := place("--beside", "model.training"); got != "beside True" {
		t.Errorf("--beside: %s", got)
	}
	w.mg(session, "where")
	w.mg(session, "fragment")
	w.mg(session, "backtrace")
	if n := w.number(session, "SELECT count(*) FROM memgauge.events WHERE name = 'eval'"); n != 3 {
		t.Errorf("%g events of evals, want those of the user's 3", n)
	}
	if r := w.do("memgauge", session, "eval", "--at", "nowhere", "1"); r.code != 2 ||
		!strings.Contains(r.stderr, "not one of main, step") {
		t.Errorf("--at nowhere: %+v", r)
	}
	if err := os.WriteFile(out+".stop", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-run.done
	if code := exitCode(run.ProcessState); code != 0 {
		t.Errorf("the training: exit %d\n%s", code, run.out.String())
	}
}

// TestPythonModule: where the agent is, `python -m memgauge` is the command.
func TestPythonModule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.do("memgauge", "run", "--quiet", "--", "python3", "-m", "memgauge", "list", "--json")
	if r.code != 0 || !strings.Contains(r.stdout, `"schema_version": 1`) {
		t.Errorf("%+v", r)
	}
	if r := w.do("memgauge", "run", "--quiet", "--", "python3", "-m", "memgauge", "nonsense"); r.code != 2 {
		t.Errorf("exit code of the command: %+v", r)
	}
}
