package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// guideFiles copies the leaking Lightning module of the guide's story into a directory.
func guideFiles(t *testing.T, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS("testdata/guide")); err != nil {
		t.Fatal(err)
	}
}

// The guide's story, from end to end (docs/first-hour.md): check finds the module's mistakes, --fix mends those that it
// can; in 1 GiB the training dies, leak names the rule beside the line, and a guard keeps it alive to its end.
func TestGuideCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guideFiles(t, w.home)
	r := w.do("memgauge", "check", "--format", "json", "system.py")
	for _, want := range []string{"MG102", "MG118", "MG203", "MG301", "MG302"} {
		if r.code != 3 || !strings.Contains(r.stdout, `"`+want+`"`) {
			t.Errorf("exit %d, %s is not found:\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	if n := strings.Count(r.stdout, `"MG102"`); n != 2 {
		t.Errorf("MG102 is found %d times, for the outputs of validation and test steps:\n%s", n, r.stdout)
	}
	if r := w.do("memgauge", "check", "--fix", "system.py"); r.code != 3 {
		t.Errorf("--fix: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	text, err := os.ReadFile(filepath.Join(w.home, "system.py"))
	if err != nil || !strings.Contains(string(text), "self.validation_step_outputs.clear()") ||
		!strings.Contains(string(text), "plt.close(") {
		t.Errorf("--fix has left\n%s", text)
	}
}

// longTraining: an epoch takes two seconds, importing Lightning ten; under load four times as much.
const longTraining = 4 * time.Minute

// guideRun trains as the guide does, in 1 GiB. At that limit the kernel may reclaim mapped files for minutes and kill
// nobody: hung says that all was ended after longTraining.
func (w *world) guideRun(name string, epochs string, flags ...string) (r result, hung bool) {
	w.t.Helper()
	python := env.Frameworks(w.t).Path
	group := memoryCgroup(w.t, 1<<30)
	args := append([]string{"run", "--session", filepath.Join(w.home, name)}, flags...)
	args = append(append(args, "--"), inCgroup(group, python, "train.py", "system.py", w.home, epochs)...)
	cmd := w.command("memgauge", args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	timer := time.AfterFunc(longTraining, func() { killAll(group) })
	_ = cmd.Run()
	return result{out.String(), errs.String(), exitCode(cmd.ProcessState)}, !timer.Stop()
}

// killAll ends the processes of a cgroup.
func killAll(group string) {
	list, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	for _, text := range strings.Fields(string(list)) {
		if pid, err := strconv.Atoi(text); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// bareRun trains without a guard until the kernel kills it, and gives the session's directory.
func (w *world) bareRun() (r result, session string) {
	for _, name := range []string{"bare", "bare-again"} {
		// of half a minute 1 % is too little for what a census of Lightning and matplotlib costs
		r, hung := w.guideRun(name, "14", "--budget", "5%")
		if !hung {
			return r, filepath.Join(w.home, name)
		}
	}
	w.t.Fatal("the kernel reclaims memory at the limit of 1 GiB, and kills nobody")
	return r, ""
}

func TestGuideGuarded(t *testing.T) {
	env.Long(t, "every command of a guide, with several trainings to their end")
	t.Parallel()
	w := newWorld(t)
	guideFiles(t, w.home)
	bare, session := w.bareRun()
	if bare.code != 137 || !strings.Contains(bare.stderr, "OOM kill") {
		t.Fatalf("without a guard: exit %d, it should have died\n%s%s", bare.code, bare.stdout, bare.stderr)
	}
	r, _ := w.guideRun("guarded", "14", "--guard", "guide")
	if r.code != 0 || !strings.Contains(r.stdout, "finished 14 epochs") {
		t.Errorf("with one: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	events := w.mg("query", "--session", filepath.Join(w.home, "guarded"), "-f", "csv",
		"SELECT text FROM memgauge.events WHERE name IN ('guard', 'error') ORDER BY ts")
	for _, want := range []string{"clear System.validation_step_outputs", "loaders start new workers", ", helped, "} {
		if !strings.Contains(events, want) {
			t.Errorf("events lack %q:\n%s", want, events)
		}
	}
	told := w.do("memgauge", "leak", "--session", session)
	for _, want := range []string{"held by   main().system.validation_step_outputs", "created   system.py:",
		"rule      MG102 step-outputs-never-cleared at system.py:",
		"            +        self.validation_step_outputs.clear()\n", "LEAK  worker "} {
		if told.code != 3 || !strings.Contains(told.stdout, want) {
			t.Errorf("leak of the bare run: exit %d, it lacks %q\n%s", told.code, want, told.stdout)
		}
	}
}

// With a guard that has nothing to do, losses are bit for bit those of a run without it.
func TestGuardChangesNothing(t *testing.T) {
	env.Long(t, "a training, twice")
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	plain := w.do("memgauge", "run", "--quiet", "--", python, script(t, "losses.py"))
	guarded := w.do("memgauge", "run", "--quiet", "--guard", "guide", "--", python, script(t, "losses.py"))
	if plain.code != 0 || guarded.code != 0 || strings.Count(plain.stdout, "\n") != 150 {
		t.Fatalf("exits %d and %d\n%s%s", plain.code, guarded.code, plain.stderr, guarded.stderr)
	}
	if plain.stdout != guarded.stdout {
		t.Error("the losses differ")
	}
}
