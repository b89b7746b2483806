package wheel

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// installed is a Python for which the wheel lies in a folder of its own, beside what that Python has.
type installed struct {
	python, site string
	env          []string
}

func installFor(t *testing.T, p env.Python) *installed {
	t.Helper()
	dir := t.TempDir()
	at := &installed{python: p.Path, site: dir + "/site"}
	at.env = append(os.Environ(), "PYTHONPATH="+at.site, "MEMGAUGE_HOME="+dir+"/home", "HF_HUB_OFFLINE=1",
		"PYTHONDONTWRITEBYTECODE=1", "PATH="+at.site+"/bin:"+os.Getenv("PATH"))
	cmd := exec.CommandContext(t.Context(), p.Path, "-m", "pip", "install", "-q", "--no-index", "--target", at.site,
		wheel(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return at
}

// run runs a command that has to succeed and returns what it prints.
func (at *installed) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "env", args...) // which looks for the command in this PATH
	cmd.Dir, cmd.Env = t.TempDir(), at.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestIntegrations uses the plugin and the callbacks as the wheel brings them, observed and not.
func TestIntegrations(t *testing.T) {
	wheel(t)
	at := installFor(t, env.Frameworks(t))
	t.Run("pytest", func(t *testing.T) { loadPlugin(t, at.python, at.env) })
	script := filepath.Join(env.Checkout(), "test/e2e/testdata/frameworks.py")
	for _, name := range []string{"transformers", "lightning", "accelerate"} {
		t.Run(name, func(t *testing.T) {
			const unobserved = "memgauge does not observe this process"
			if got := at.run(t, at.python, script, name, "sound", t.TempDir()); strings.Count(got, unobserved) != 1 {
				t.Errorf("unobserved:\n%s", got)
			}
			got := at.run(t, "memgauge", "run", "--name", name, "--", at.python, script, name, "sound", t.TempDir())
			if strings.Contains(got, unobserved) {
				t.Errorf("observed:\n%s", got)
			}
			got = at.run(t, "memgauge", name, "query", "-f", "csv",
				"SELECT name, count(*) FROM memgauge.events WHERE name IN ('training', 'epoch', 'error') GROUP BY name")
			if strings.Contains(got, "error") || !strings.Contains(got, "epoch,4") ||
				!strings.Contains(got, "training,2") {
				t.Errorf("events:\n%s", got)
			}
		})
	}
}

// TestLearners: what needs no call of ours is seen by the wheel's command.
func TestLearners(t *testing.T) {
	wheel(t)
	at := installFor(t, env.Learners(t))
	script := filepath.Join(env.Checkout(), "test/e2e/testdata/learners.py")
	for name, by := range map[string]string{"plain": "calls of memgauge.step()", "jax": "compiled by JAX",
		"keras": "batches of Keras", "xgboost": "boosting rounds of XGBoost",
		"lightgbm": "boosting rounds of LightGBM"} {
		t.Run(name, func(t *testing.T) {
			at.run(t, "memgauge", "run", "--quiet", "--name", name, "--", at.python, script, name, "300", "sound")
			got := at.run(t, "memgauge", name, "query", "-f", "csv",
				"SELECT name, text FROM memgauge.events WHERE name IN ('steps', 'error')")
			if !strings.Contains(got, by) || strings.Contains(got, "error") {
				t.Errorf("events:\n%s", got)
			}
		})
	}
}
