package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// The callbacks with the real libraries: epochs, evaluations and checkpoints become events; a leak is warned of once
// and lands in TensorBoard through the framework's own logger.
func TestFrameworks(t *testing.T) {
	env.Long(t, "frameworks: imports of seconds, and runs that a verdict needs")
	t.Parallel()
	python := env.Frameworks(t).Path
	for _, c := range []struct{ name, tag string }{
		{"transformers", "train/memgauge/leak"},
		{"lightning", "memgauge/leak"},
		{"accelerate", "memgauge/leak"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s, out := filepath.Join(w.home, "s"), filepath.Join(w.home, "out")
			r := w.do("memgauge", "run", "--quiet", "--session", s, "--", python, script(t, "frameworks.py"), c.name,
				"leaky", out)
			if r.code != 0 {
				t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if n := strings.Count(r.stderr, "memgauge: LEAK host "); n != 1 {
				t.Errorf("warned %d times of the leak\n%s", n, r.stderr)
			}
			events := w.mg("query", "--session", s, "-f", "csv", `SELECT name, count(*) FROM memgauge.events
 WHERE name IN ('training', 'epoch', 'evaluation', 'checkpoint') AND text = 'end' OR name = 'checkpoint'
 OR name = 'error' GROUP BY name ORDER BY name`)
			for _, want := range []string{"\ncheckpoint,2", "\nepoch,2", "\nevaluation,2", "\ntraining,1"} {
				if !strings.Contains(events, want) || strings.Contains(events, "error") {
					t.Errorf("events lack %q:\n%s", want, events)
				}
			}
			checkScalars(t, w, python, out, c.tag)
		})
	}
}

func checkScalars(t *testing.T, w *world, python, dir, tag string) {
	t.Helper()
	r := w.do(python, script(t, "scalars.py"), dir)
	var scalars map[string]float64
	if err := json.Unmarshal([]byte(r.stdout), &scalars); err != nil {
		t.Fatalf("%v\n%s", err, r.stderr)
	}
	if scalars[tag] != 1 {
		t.Errorf("TensorBoard has %v, want %s = 1", scalars, tag)
	}
	if rate := scalars[strings.Replace(tag, "leak", "leak_mib_per_step", 1)]; rate < 0.05 || rate > 0.08 {
		t.Errorf("a rate of %v MiB/step, want 0.0625", rate)
	}
}

// Without memgauge the callbacks do nothing but to say, once, how to be observed.
func TestFrameworksUnobserved(t *testing.T) {
	env.Long(t, "frameworks: imports of seconds")
	t.Parallel()
	python := env.Frameworks(t).Path
	for _, name := range []string{"transformers", "lightning", "accelerate"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.finish(w.unobserved(python, script(t, "frameworks.py"), name, "sound", filepath.Join(w.home, "out")))
			if r.code != 0 || strings.Count(r.stderr, "memgauge does not observe this process") != 1 {
				t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}

// unobserved is a Python that can import memgauge as an installed package.
func (w *world) unobserved(python string, args ...string) *exec.Cmd {
	cmd := w.command(python, args...)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+filepath.Join(env.Checkout(), "python"),
		"PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// The plugin of pytest fails what its marks forbid, says where the memory is allocated, and lists the heaviest tests;
// the same with xdist's workers.
func TestPytestPlugin(t *testing.T) {
	env.Long(t, "frameworks: pytest with its plugins over tests that leak")
	t.Parallel()
	python := env.Frameworks(t).Path
	for _, c := range []struct {
		name string
		args []string
	}{{"alone", nil}, {"xdist", []string{"-n", "2"}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			args := append([]string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:memray", "-p",
				"memgauge.integrations.pytest", "--memgauge", script(t, "limits.py")}, c.args...)
			r := w.finish(w.unobserved(python, args...))
			if r.code != 1 {
				t.Errorf("exit %d, want 1", r.code)
			}
			for _, want := range []string{
				`(?m)^3 failed, 6 passed, 1 error in `,
				`Test was limited to a peak of 2.00 MiB but its memory rose by (9\.[5-9]\d|1\d(\.\d)?) MiB \(host\)`,
				`Test was limited to 10.0 KiB/step but its [a-z ]+ grew by 3[23]\.\d KiB/step \(`,
				`(?m)^    - 3[23]\.\d KiB/step in [\d.]+ blocks/step allocated here:$`,
				`(?m)^        .*limits.py:25$`,
				`(?m)^MEMORY PROBLEMS .*limits.py::test_leaks`,
				`(?m)^    \+1(\.\d+)? builtins.list/step$`,
				`'much' is no size: write "10 KiB"`,
				`=+ memgauge: the heaviest of \d+ tests =+`,
				`(?m)^ +3\d\.\d MiB +-?\d.* KiB .*limits.py::test_plain$`,
			} {
				if !regexp.MustCompile(want).MatchString(r.stdout) {
					t.Errorf("no %s in\n%s", want, r.stdout)
				}
			}
		})
	}
}
