package repair

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/test/env"
)

// repository is a git repository of eight commits, in which a test then stands: the file state says what a run shows.
func repository(t *testing.T, states ...string) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for _, v := range []string{"NAME", "EMAIL"} {
		t.Setenv("GIT_AUTHOR_"+v, "ann@example.org")
		t.Setenv("GIT_COMMITTER_"+v, "ann@example.org")
	}
	must := func(args ...string) {
		t.Helper()
		if _, err := git(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	must("init", "--quiet")
	must("config", "user.name", "Ann")
	must("config", "user.email", "ann@example.org")
	for i, state := range states {
		text := state + "\n" + strings.Repeat("#\n", i) // each commit has another tree
		if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		must("add", "train.py", "notes.txt")
		must("commit", "--quiet", "-m", "change "+string(rune('a'+i)))
		must("tag", "t"+string(rune('a'+i)))
	}
	return dir
}

// seeing is a search whose runs show what the checked out file says.
func seeing(t *testing.T, o bisectOptions) *search {
	t.Helper()
	a := &app.App{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
	s := &search{commands: &commands{a}, o: o}
	s.run = func(_ context.Context, what, cwd string, _, _ []string) (trial, error) {
		text, err := os.ReadFile(filepath.Join(cwd, "train.py"))
		if err != nil {
			return trial{}, err
		}
		state, _, _ := strings.Cut(string(text), "\n")
		r := trial{What: what, Outcome: outcome(state), Line: state}
		if r.Outcome == bad {
			s.leak = &detect.Finding{Site: "train.py:1"}
		}
		return r, nil
	}
	return s
}

// untouched fails where git knows of more than the test has made: the user's checkout stays as it was.
func untouched(t *testing.T, dir, head string) {
	t.Helper()
	for _, c := range []struct{ args, want string }{{"rev-parse HEAD", head}, {"status --porcelain", ""},
		{"for-each-ref refs/bisect", ""}} {
		if got, err := git(context.Background(), dir, strings.Fields(c.args)...); err != nil || got != c.want {
			t.Errorf("git %s: %q, %v; want %q", c.args, got, err, c.want)
		}
	}
	if trees, err := git(context.Background(), dir, "worktree", "list"); err != nil || strings.Contains(trees, "\n") {
		t.Errorf("working trees are left: %s, %v", trees, err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "memgauge-bisect-*")); len(left) > 0 {
		t.Errorf("directories are left: %v", left)
	}
}

// TestAbandonedTrees: what a killed bisect has left in the repository goes with the next one, which says so; that of
// one which is at work stays.
func TestAbandonedTrees(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := repository(t, "healthy", "leak")
	head, _ := git(t.Context(), dir, "rev-parse", "HEAD")
	var trees []*checkout
	var leaves []func()
	for range 3 {
		c, leave, err := newCheckout(t.Context(), "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		trees, leaves = append(trees, c), append(leaves, leave)
	}
	for _, killed := range trees[:2] { // the kernel takes the lock of a process that is gone
		killed.lock.Close()
	}
	if err := os.RemoveAll(trees[1].temp.Path()); err != nil { // as systemd-tmpfiles does
		t.Fatal(err)
	}
	s := seeing(t, bisectOptions{good: "ta", bad: "HEAD"})
	if _, err := s.commits(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprint(s.Stderr); !strings.Contains(said, "removed 2 working trees") {
		t.Errorf("%s", said)
	}
	if _, err := os.Stat(trees[2].tree); err != nil {
		t.Errorf("the tree of one at work: %v", err)
	}
	leaves[2]()
	untouched(t, dir, head)
}

// TestCommits: of eight commits the one that began the leak is found, with its diff of the file that leaks alone; those
// that say nothing are skipped.
func TestCommits(t *testing.T) {
	for name, c := range map[string]struct {
		states []string
		want   string // tag; "" where several may be it
		rest   int
	}{
		"third": {[]string{"healthy", "healthy", "leak", "leak", "leak", "leak", "leak", "leak"}, "tc", 0},
		"last": {[]string{"healthy", "healthy", "healthy", "healthy", "healthy", "healthy", "healthy", "leak"},
			"th", 0},
		"skipped": {[]string{"healthy", "healthy", "healthy", "undecided", "leak", "leak", "undecided", "leak"}, "", 2},
		"beside": {[]string{"healthy", "undecided", "healthy", "healthy", "leak", "leak", "undecided", "leak"}, "te",
			0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			dir := repository(t, c.states...)
			head, _ := git(t.Context(), dir, "rev-parse", "HEAD")
			s := seeing(t, bisectOptions{good: "ta", bad: "HEAD"})
			f, err := s.commits(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			untouched(t, dir, head)
			if c.want == "" {
				if f.First != nil || len(f.Candidates) != c.rest {
					t.Errorf("%v of %v", f.First, f.Candidates)
				}
				return
			}
			want, _ := git(t.Context(), dir, "rev-parse", "--short=12", c.want)
			if f.First == nil || *f.First != want {
				t.Fatalf("%v, want %s", f, want)
			}
			if f.Diff == nil || !strings.Contains(*f.Diff, "+leak") || strings.Contains(*f.Diff, "notes.txt") {
				t.Errorf("diff %v", f.Diff)
			}
		})
	}
}

// TestCommitsThatSayNothing: where an end is not what it was said to be, nothing is searched.
func TestCommitsThatSayNothing(t *testing.T) {
	for name, c := range map[string]struct {
		states []string
		good   string
		want   string
	}{
		"no leak":      {[]string{"healthy", "healthy"}, "ta", "does not leak"},
		"leaks before": {[]string{"leak", "leak"}, "ta", "leaks already"},
		"not known":    {[]string{"undecided", "leak"}, "ta", "is not known to be healthy"},
		"no commit":    {[]string{"healthy", "leak"}, "none", "is no commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			dir := repository(t, c.states...)
			head, _ := git(t.Context(), dir, "rev-parse", "HEAD")
			_, err := seeing(t, bisectOptions{good: c.good, bad: "HEAD"}).commits(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			untouched(t, dir, head)
		})
	}
}

// TestCommitsInterrupted: Ctrl-C in a run leaves nothing behind.
func TestCommitsInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := repository(t, "healthy", "healthy", "leak", "leak")
	head, _ := git(t.Context(), dir, "rev-parse", "HEAD")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := seeing(t, bisectOptions{good: "ta", bad: "HEAD"})
	run, n := s.run, 0
	s.run = func(c context.Context, what, cwd string, command, env []string) (trial, error) {
		if n++; n == 3 {
			stop()
			return trial{}, ctx.Err()
		}
		return run(c, what, cwd, command, env)
	}
	if _, err := s.commits(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	untouched(t, dir, head)
}

// TestLinked: what git doesn't track is there, as it is in the user's directory.
func TestLinked(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := repository(t, "healthy", "leak")
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := seeing(t, bisectOptions{good: "ta", bad: "HEAD", link: []string{"data"}})
	run := s.run
	s.run = func(c context.Context, what, cwd string, command, env []string) (trial, error) {
		if to, err := os.Readlink(filepath.Join(cwd, "data")); err != nil || to != filepath.Join(dir, "data") {
			t.Errorf("%s: data is %q, %v", what, to, err)
		}
		return run(c, what, cwd, command, env)
	}
	if f, err := s.commits(t.Context()); err != nil || f.First == nil {
		t.Errorf("%v, %v", f, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err != nil {
		t.Error(err)
	}
}

// TestNarrow: the neighbours are found by halves; what can't be told is stepped over, and told where it lies between.
func TestNarrow(t *testing.T) {
	const first = 37
	asked := 0
	lo, hi, err := narrow(0, 100, func(at int) (outcome, error) {
		if asked++; at >= first {
			return bad, nil
		}
		return good, nil
	})
	if lo != first-1 || hi != first || err != nil || asked > 7 {
		t.Errorf("%d to %d in %d questions, %v", lo, hi, asked, err)
	}
	lo, hi, _ = narrow(0, 10, func(at int) (outcome, error) {
		switch {
		case at >= 4 && at <= 6:
			return skipped, nil
		case at > 6:
			return bad, nil
		}
		return good, nil
	})
	if lo != 3 || hi != 7 {
		t.Errorf("%d to %d, want 3 to 7", lo, hi)
	}
}

func TestSubstitute(t *testing.T) {
	for _, c := range []struct{ command, name, want string }{
		{"python train.py --size={n} {n}", "n", "python train.py --size=8 8"},
		{"python train.py --batch-size 4 x", "batch-size", "python train.py --batch-size 8 x"},
		{"python train.py --batch_size=4", "batch-size", "python train.py --batch_size=8"},
		{"python train.py", "batch-size", ""},
		{"python train.py --batch-size", "batch-size", ""},
	} {
		got, ok := substitute(strings.Fields(c.command), c.name, "8")
		if strings.Join(got, " ") != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v", c.command, got, ok)
		}
	}
}

func TestLocks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, err := readLock(write("a", "# frozen\nTorch==2.1\nmy_pkg==1 # ours\ngone==1\nsame==1 \\\n  "+
		"--hash=sha256:00\n"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := readLock(write("b", "torch==2.2\nmy-pkg @ file:///wheels/my.whl\nsame==1\nnew[extra]==3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := differing(before, after), []string{"gone", "my-pkg", "new", "torch"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := readLock(write("c", "torch>=2\n")); err == nil || !strings.Contains(err.Error(), "c:1") {
		t.Errorf("%v", err)
	}
}

// TestApply: the text before stays beside; a file that has changed since, or whose older text would go, is left alone.
func TestApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train.py")
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	is := func(path, want string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
	change := []changed{{path: path, before: []byte("a\n"), after: []byte("b\n")}}
	put("c\n")
	if _, err := apply(change); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("%v", err)
	}
	is(path, "c\n")
	put("a\n")
	if done, err := apply(change); err != nil || len(done) != 1 || done[0].Before != path+kept {
		t.Fatalf("%v, %v", done, err)
	}
	is(path, "b\n")
	is(path+kept, "a\n")
	put("a\n")
	if _, err := apply(change); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("%v", err)
	}
	is(path, "a\n")
}

func TestCompareTexts(t *testing.T) {
	for _, c := range []struct {
		before, after []string
		want          compared
	}{
		{[]string{"1", "2"}, []string{"1", "2", "3"}, compared{same, 2, ""}},
		{[]string{"1", "2"}, []string{"1", "2.5"}, compared{different, 2, "number 2 is 2.5, and was 2"}},
		{nil, []string{"1"}, compared{unknown, 0, "the program as it is printed none"}},
	} {
		if got := compareTexts(c.before, c.after); got != c.want {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// wheel writes a package of one version as pip installs it.
func wheel(t *testing.T, dir, name, version string) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, name+"-"+version+"-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(file)
	info := name + "-" + version + ".dist-info/"
	for path, text := range map[string]string{name + ".py": "version = '" + version + "'\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   ""} {
		w, err := z.Create(path)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestPackages: of three packages that differ the one whose newer version leaks is found, in an environment that pip
// makes; the directory goes afterwards.
func TestPackages(t *testing.T) {
	env.Long(t, "pip installs into a new environment four times")
	python := env.Torch(t).Path
	if out, err := exec.Command(python, "-m", "ensurepip", "--version").CombinedOutput(); err != nil {
		env.Missing(t, "venv", fmt.Sprintf("%s comes without pip: %v\n%s", python, err, out))
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", dir)
	before, after := "", ""
	for _, name := range []string{"left", "middle", "right"} {
		wheel(t, dir, name, "1.0")
		wheel(t, dir, name, "2.0")
		before, after = before+name+"==1.0\n", after+name+"==2.0\n"
	}
	o := bisectOptions{before: filepath.Join(dir, "before.txt"), after: filepath.Join(dir, "after.txt"), python: python}
	for path, text := range map[string]string{o.before: before, o.after: after} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := seeing(t, o)
	s.run = func(ctx context.Context, what, _ string, _, env []string) (trial, error) {
		root, _ := strings.CutPrefix(env[0], "VIRTUAL_ENV=")
		said, err := exec.CommandContext(ctx, filepath.Join(root, "bin", "python"), "-c",
			"import middle; print(middle.version)").Output()
		r := trial{What: what, Outcome: good}
		if strings.TrimSpace(string(said)) == "2.0" {
			r.Outcome = bad
		}
		return r, err
	}
	f, err := s.packages(t.Context())
	if err != nil || f.First == nil || *f.First != "middle" || *f.About != "middle==2.0 in place of middle==1.0" {
		t.Errorf("%+v, %v", f, err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "memgauge-bisect-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
