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

// corpus copies a program of the corpus below the world's home, as it was before the run.
func (w *world) corpus(name string) (file string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Checkout(), "test", "accuracy", "corpus", "wild", "programs", name))
	if err != nil {
		w.t.Fatal(err)
	}
	file = filepath.Join(w.home, name)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		w.t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// TestFix: the change is proposed and nothing is written; --verify runs the program with it; only then is it written,
// and the text before is kept. A file that has changed since is left alone.
func TestFix(t *testing.T) {
	env.Long(t, "a training to its end, four times")
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	file, s := w.corpus("w013.py"), filepath.Join(w.home, "s")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.mg("run", "--quiet", "--session", s, "--", python, "w013.py")
	const line = "self.mean = 0.95 * self.mean.detach() + 0.05 * hidden.mean(0)"
	if r := w.do("memgauge", "fix", "--session", s); r.code != 3 || !strings.Contains(r.stdout, "+        "+line) {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if now, _ := os.ReadFile(file); string(now) != string(before) {
		t.Fatal("a proposal was written")
	}
	r := w.do("memgauge", "fix", "--session", s, "--verify", "--apply", "--json")
	var doc struct {
		Tried struct {
			Gone   bool
			Losses struct{ Equal string }
			Peaks  []struct{ Memory string }
		}
		Applied []struct{ Path, Before string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil || r.code != 0 {
		t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	if x := doc.Tried; !x.Gone || x.Losses.Equal != "yes" || len(x.Peaks) == 0 || len(doc.Applied) != 1 {
		t.Errorf("%s", r.stdout)
	}
	now, _ := os.ReadFile(file)
	kept, _ := os.ReadFile(file + ".orig")
	if !strings.Contains(string(now), line) || string(kept) != string(before) {
		t.Errorf("the file is\n%s\nand before\n%s", now, kept)
	}
	if r := w.do("memgauge", "fix", "--session", s); !strings.Contains(r.stdout,
		"has changed since the session began") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	w.mg("run", "--quiet", "--session", s+"2", "--", python, "w013.py")
	if r := w.do("memgauge", "fix", "--session", s+"2"); r.code != 0 || !strings.Contains(r.stdout, "nothing to mend") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// TestFixesOfTheCorpus: how many of the leaking programs get a change with which they leak no more.
func TestFixesOfTheCorpus(t *testing.T) {
	env.Long(t, "each leaking program of the corpus to its end, twice")
	python := env.Torch(t).Path
	w := newWorld(t)
	text, err := os.ReadFile(filepath.Join(env.Checkout(), "test", "accuracy", "corpus", "wild", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Programs []struct{ Name, Label string }
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	leaks, mended := 0, 0
	for _, p := range m.Programs {
		if p.Label != "leak" {
			continue
		}
		leaks++
		w.corpus(p.Name + ".py")
		s := filepath.Join(w.home, p.Name)
		w.mg("run", "--quiet", "--session", s, "--", python, p.Name+".py")
		r := w.do("memgauge", "fix", "--session", s, "--apply", "--unsafe")
		if r.code != 0 {
			t.Logf("%s: exit %d\n%s%s", p.Name, r.code, r.stdout, r.stderr)
			continue
		}
		w.mg("run", "--quiet", "--session", s+"-fixed", "--", python, p.Name+".py")
		if r := w.do("memgauge", "leak", "--session", s+"-fixed"); r.code != 0 {
			t.Logf("%s leaks with the change\n%s", p.Name, r.stdout)
			continue
		}
		mended++
	}
	if t.Logf("%d of %d", mended, leaks); mended < leaks-2 {
		t.Errorf("%d of %d get a change that ends the leak, at least %d should", mended, leaks, leaks-2)
	}
}

// TestBisect: of eight commits the one that began the leak is found by real runs, with its diff, and nothing of the
// search is left in the repository.
func TestBisect(t *testing.T) {
	env.Long(t, "a training to its end, five times")
	t.Parallel()
	python := env.Torch(t).Path
	w := newWorld(t)
	file := w.corpus("w014.py") // without the history
	sound, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const without, with = "hidden.detach().mean(0)\n        return", "hidden.mean(0)\n        return"
	leaks := strings.Replace(string(sound), without, with, 1)
	if leaks == string(sound) {
		t.Fatalf("the program has no %q", without)
	}
	repo := filepath.Join(w.home, "repo")
	w.git("init", "--quiet", repo)
	const first = 5
	for i := range 8 {
		text := string(sound)
		if i >= first {
			text = leaks
		}
		for name, text := range map[string]string{"train.py": text, "notes": strings.Repeat("note\n", i+1)} {
			if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w.git("-C", repo, "add", ".")
		w.git("-C", repo, "commit", "--quiet", "-m", "commit "+string(rune('0'+i)))
	}
	cmd := w.command("memgauge", "bisect", "--good", "HEAD~7", "--", python, "train.py")
	cmd.Dir = repo
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // five runs take longer than a test's patience with one; the code says what came of it
	said := out.String()
	if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(said, "commit 5") ||
		!strings.Contains(said, "+++ b/train.py") || strings.Contains(said, "notes") {
		t.Errorf("exit %d\n%s%s", code, said, errs.String())
	}
	if left := w.git("-C", repo, "worktree", "list"); strings.Count(left, "\n") != 1 {
		t.Errorf("left: %s", left)
	}
	if left := w.git("-C", repo, "status", "--porcelain"); left != "" {
		t.Errorf("changed: %s", left)
	}
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := w.command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, args...)...)
	r := w.finish(cmd)
	if r.code != 0 {
		w.t.Fatalf("git %v: exit %d\n%s", args, r.code, r.stderr)
	}
	return r.stdout
}
