package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// policyFile writes a policy, and gives its path.
func (w *world) policyFile(text string) string {
	w.t.Helper()
	path := filepath.Join(w.home, "policy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// A training that the kernel kills is started again with half the batch until it fits, if it asks for its batch size;
// one that doesn't ask would run out of memory again, and is not.
func TestGuardRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	policy := w.policyFile("rules:\n  - when: {memory: process, above: 8GiB}\n    do: [warn]\n" +
		"training: {batch_size: 8, accumulate_grad_batches: 1}\n")
	start := func(more ...string) result {
		group := memoryCgroup(t, 200<<20)
		command := append([]string{"python3", script(t, "batches.py")}, more...)
		return w.do("memgauge", append([]string{"run", "--name", "small" + strings.Join(more, ""), "--guard", policy,
			"--on-oom", "retry", "--max-retries", "3", "--"}, inCgroup(group, command...)...)...)
	}
	r := start()
	if r.code != 0 || !strings.HasSuffix(r.stdout, "batch_size 8\nbatch_size 4\nbatch_size 2\nfinished with 2\n") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, want := range []string{"started again (1 of 3) with batch_size 4 instead of 8", "started again (2 of 3)",
		"OOM kill", "nothing asked for training.accumulate_grad_batches"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, r.stderr)
		}
	}
	if out := w.mg("list", "-a"); strings.Count(out, "small-retry") != 2 {
		t.Errorf("each try has a session of its own:\n%s", out)
	}
	if r = start("own"); r.code != 137 || strings.Count(r.stdout, "batch_size") != 1 ||
		!strings.Contains(r.stderr, "not started again: the script never asked memgauge.policy()") {
		t.Errorf("one that doesn't ask: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// hook is an address that takes messages, after it has refused the first one as an address under load does.
type hook struct {
	*httptest.Server
	mu    sync.Mutex
	tries int
	got   []map[string]any
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var message map[string]any
		err := json.Unmarshal(body, &message)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.tries++; h.tries == 1 || err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		h.got = append(h.got, message)
	}))
	t.Cleanup(h.Close)
	return h
}

// A stop with a checkpoint, and what its rule tells, reach the webhook in either form, though its first answer was 503;
// the trainer never has the address.
func TestGuardTellsItsWebhook(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"json", "slack"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			w, h := newWorld(t), newHook(t)
			policy := w.policyFile("rules:\n  - name: ours\n    when: {every_steps: 50}\n    do: [webhook, stop]\n" +
				"webhook: {url: \"" + h.URL + "/services/key\", form: " + form + "}\n")
			saved := filepath.Join(w.home, "saved")
			r := w.do("memgauge", "run", "--name", "told", "--guard", policy, "--", "python3", script(t, "saves.py"),
				saved, "hook")
			if r.code != 75 || !strings.Contains(r.stdout, "address: []") ||
				!strings.Contains(r.stderr, ": stopped with a checkpoint: every 50 steps") {
				t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if strings.Contains(r.stderr, "127.0.0.1") {
				t.Errorf("the address is told:\n%s", r.stderr)
			}
			if text, err := os.ReadFile(saved); err != nil || strings.Count(string(text), "step") != 1 {
				t.Errorf("checkpoint %q, %v", text, err)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.tries != 3 || len(h.got) != 2 {
				t.Fatalf("%d tries, messages %v", h.tries, h.got)
			}
			first, second := h.got[0]["text"].(string), h.got[1]["text"].(string)
			if !strings.Contains(first, "ours: webhook: every 50 steps") ||
				!strings.Contains(second, "ours: stopped with a checkpoint") {
				t.Errorf("messages %v", h.got)
			}
			if session := h.got[0]["session"]; form == "json" && (session != "told" || h.got[0]["event"] != "guard" ||
				h.got[0]["schema_version"] != 1.0) || form == "slack" && len(h.got[0]) != 1 {
				t.Errorf("the form is not %s: %v", form, h.got[0])
			}
		})
	}
}

// What stops the training stops it where the loop asks, too; a dry run tells of it and does nothing.
func TestGuardStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	policy := w.policyFile("rules:\n  - when: {every_steps: 50}\n    do: [stop]\n")
	saved := filepath.Join(w.home, "saved")
	r := w.do("memgauge", "run", "--guard", policy, "--", "python3", script(t, "saves.py"), saved, "asks")
	if r.code != 0 || !regexp.MustCompile(`the loop stopped at 5\d\nfinished`).MatchString(r.stdout) {
		t.Errorf("a loop that asks: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	_ = os.Remove(saved)
	s := filepath.Join(w.home, "s")
	r = w.do("memgauge", "run", "--session", s, "--guard", policy, "--dry-run", "--", "python3", script(t, "saves.py"),
		saved, "hook")
	if _, err := os.Stat(saved); r.code != 0 || !os.IsNotExist(err) || !strings.Contains(r.stdout, "finished") {
		t.Errorf("dry run: exit %d, checkpoint: %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	if n := w.number(s, "SELECT count(*) FROM memgauge.events WHERE text LIKE '%would stop%'"); n < 2 {
		t.Errorf("a dry run tells %v times that it would stop", n)
	}
}

// Ctrl-C during a checkpoint ends the training as it would without a guard, and kill -9 leaves what was told until
// then.
func TestGuardInterruptedWhileSaving(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"ctrl-c": syscall.SIGINT, "kill": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			policy := w.policyFile("rules:\n  - when: {every_steps: 50}\n    do: [stop]\n")
			saved, s := filepath.Join(w.home, "saved"), filepath.Join(w.home, "s")
			run := w.start("memgauge", "run", "--session", s, "--guard", policy, "--", "python3", script(t, "saves.py"),
				saved, "slow")
			until(t, "the checkpoint to begin", func() bool { return strings.Contains(run.out.String(), "saving") })
			if err := syscall.Kill(trainerPID(t, run), signal); err != nil {
				t.Fatal(err)
			}
			if code := run.wait(t); code != 128+int(signal) && !(signal == syscall.SIGINT && code == 1) {
				t.Errorf("exit %d\n%s%s", code, run.out.String(), run.err.String())
			}
			if text, _ := os.ReadFile(saved); strings.Contains(string(text), "whole") ||
				strings.Contains(run.err.String(), "stopped with a checkpoint") {
				t.Errorf("a checkpoint that was cut short is told as one: %q\n%s", text, run.err.String())
			}
			w.number(s, "SELECT count(*) FROM memgauge.events WHERE name = 'guard'")
		})
	}
}

// The frameworks' callbacks save with the Trainer and end its training.
func TestCallbacksStop(t *testing.T) {
	env.Long(t, "frameworks: imports of seconds")
	t.Parallel()
	python := env.Frameworks(t).Path
	for _, c := range []struct{ name, saved string }{
		{"transformers", "model/checkpoint-*"},
		{"lightning", "memgauge-guard.ckpt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			policy := w.policyFile("rules:\n  - when: {every_steps: 30}\n    do: [stop]\n")
			s, out := filepath.Join(w.home, "s"), filepath.Join(w.home, "out")
			r := w.do("memgauge", "run", "--session", s, "--guard", policy, "--", python, script(t, "frameworks.py"),
				c.name, "leaky", out)
			if r.code != 0 || !strings.Contains(r.stderr, ": stopped with a checkpoint: ") {
				t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if files, _ := filepath.Glob(filepath.Join(out, c.saved)); len(files) != 1 {
				t.Errorf("checkpoints %v", files)
			}
			if n := w.number(s, "SELECT max(step) FROM python.steps"); n < 30 || n > 60 {
				t.Errorf("%v steps, of 1200", n)
			}
		})
	}
}
