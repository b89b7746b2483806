package repair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// checkout is a working tree of its own, of the user's repository.
type checkout struct {
	top    string // of the user's working tree
	prefix string // of the directory below it from which bisect was called
	tree   string
	temp   *rootdir.Dir
	lock   *os.File // of temp, until this process is gone: by it the next one knows what a killed one has left
}

const treePrefix, treeName = "memgauge-bisect-", "tree"

// abandoned removes working trees that a killed bisect has left in the repository, and returns how many.
func abandoned(ctx context.Context, top string) (n int, err error) {
	said, err := git(ctx, top, "worktree", "list", "--porcelain")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(said) {
		tree, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "worktree ")
		dir := filepath.Dir(tree)
		if !is || filepath.Base(tree) != treeName || !strings.HasPrefix(filepath.Base(dir), treePrefix) {
			continue
		}
		if d, err := rootdir.Open(dir); err == nil {
			lock, err := d.Lock()
			d.Close()
			if err != nil {
				continue // one that is at work
			}
			err = rootdir.RemoveAll(dir)
			lock.Close()
			if err != nil {
				return n, fmt.Errorf("remove what a killed bisect has left: %w", err)
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			continue // another user's
		}
		n++
	}
	if n > 0 {
		_, err = git(ctx, top, "worktree", "prune")
	}
	return n, err
}

// git runs git in a directory. Where it is called by a hook or an alias of git's, variables would lead it elsewhere.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.hooksPath=/dev/null", "-C", dir}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_") })
	cmd.Env = append(cmd.Env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat")
	out, err := cmd.Output()
	said := strings.TrimSuffix(string(out), "\n")
	if err == nil {
		return said, nil
	}
	if ctx.Err() != nil {
		return said, ctx.Err()
	}
	var exit *exec.ExitError
	if why := said; errors.As(err, &exit) {
		if len(exit.Stderr) > 0 {
			why = string(exit.Stderr)
		}
		err = fmt.Errorf("%w: %s", err, lastLine(why))
	}
	return said, fmt.Errorf("git %s: %w", args[0], err)
}

// newCheckout makes a working tree at a commit. leave removes it with all that git keeps about it.
func newCheckout(ctx context.Context, at string) (c *checkout, leave func(), err error) {
	c = &checkout{}
	if c.top, err = git(ctx, ".", "rev-parse", "--show-toplevel"); err != nil {
		return nil, nil, remedy.Add(err, "bisect runs in a git repository; --lock-before, --vary search among others")
	}
	if c.prefix, err = git(ctx, ".", "rev-parse", "--show-prefix"); err != nil {
		return nil, nil, err
	}
	if c.temp, err = rootdir.Temp("", treePrefix); err != nil {
		return nil, nil, err
	}
	if c.lock, err = c.temp.Lock(); err != nil {
		_ = c.temp.Discard()
		return nil, nil, err
	}
	c.tree = filepath.Join(c.temp.Path(), treeName)
	leave = func() {
		ctx := context.WithoutCancel(ctx) // also after Ctrl-C
		_, _ = git(ctx, c.top, "worktree", "remove", "--force", "--force", c.tree)
		_ = c.temp.Discard() // what stays is below the temporary directory
		c.lock.Close()
		_, _ = git(ctx, c.top, "worktree", "prune")
	}
	if _, err = git(ctx, c.top, "worktree", "add", "--detach", c.tree, at); err != nil {
		leave()
		return nil, nil, err
	}
	return c, leave, nil
}

// cwd is where the command runs: the directory of the copy that bisect was called from.
func (c *checkout) cwd() string { return filepath.Join(c.tree, c.prefix) }

// link puts what git doesn't track into the working tree, as it is in the user's.
func (c *checkout) link(paths []string) error {
	for _, p := range paths {
		from := filepath.Join(c.top, c.prefix, p)
		if !filepath.IsLocal(p) {
			return fmt.Errorf("--link %s: not below this directory", p)
		}
		if _, err := os.Lstat(from); err != nil {
			return fmt.Errorf("--link: %w", err)
		}
		to := filepath.Join(c.cwd(), p)
		if _, err := os.Lstat(to); err == nil {
			continue // git has it
		}
		dir, err := rootdir.Make(filepath.Dir(to))
		if err != nil {
			return fmt.Errorf("--link %s: %w", p, err)
		}
		err = dir.Link(from, filepath.Base(to))
		dir.Close()
		if err != nil {
			return fmt.Errorf("--link %s: %w", p, err)
		}
	}
	return nil
}

// commits searches the commits between the good one and the bad one as git bisect does.
func (s *search) commits(ctx context.Context) (found, error) {
	f := found{Among: commits}
	ends := map[string]string{}
	for _, rev := range []string{s.o.bad, s.o.good} {
		sha, err := git(ctx, ".", "rev-parse", "--verify", "--end-of-options", rev+"^{commit}")
		if err != nil {
			return f, fmt.Errorf("%s is no commit: %w", rev, err)
		}
		ends[rev] = sha
	}
	if _, err := git(ctx, ".", "merge-base", "--is-ancestor", ends[s.o.good], ends[s.o.bad]); err != nil {
		return f, remedy.Add(fmt.Errorf("%s does not come before %s", s.o.good, s.o.bad),
			"--good names a commit of the history of --bad")
	}
	c, leave, err := newCheckout(ctx, ends[s.o.bad])
	if err != nil {
		return f, err
	}
	defer leave()
	switch left, err := abandoned(ctx, c.top); {
	case err != nil:
		plain.Fprintf(s.Stderr, "memgauge: %v\n", err)
	case left > 0:
		plain.Fprintf(s.Stderr, "memgauge: removed %s that a killed bisect had left in this repository\n",
			doc.Plural(left, "working tree"))
	}
	leaks, err := s.commit(ctx, c)
	if err != nil {
		return f, err
	}
	if err := s.ends(leaks, trial{}); err != nil {
		return f, err
	}
	if _, err := git(ctx, c.tree, "checkout", "--quiet", "--force", "--detach", ends[s.o.good]); err != nil {
		return f, err
	}
	sound, err := s.commit(ctx, c)
	if err != nil {
		return f, err
	}
	if err := s.ends(leaks, sound); err != nil {
		return f, err
	}
	said, err := git(ctx, c.tree, "bisect", "start", ends[s.o.bad], ends[s.o.good])
	return s.halve(ctx, c, f, said, err)
}

// halve lets git choose commits until it knows the first bad one, or that those that are left can't be told apart.
func (s *search) halve(ctx context.Context, c *checkout, f found, said string, err error) (found, error) {
	for {
		switch {
		case strings.Contains(said, "is the first bad commit"):
			sha, err := git(ctx, c.tree, "rev-parse", "refs/bisect/bad")
			if err != nil {
				return f, err
			}
			return s.first(ctx, c, f, sha)
		case strings.Contains(said, "only 'skip'ped commits left"):
			for _, line := range strings.Split(said, "\n") {
				if isHash(line) {
					f.Candidates = append(f.Candidates, line[:shortHash])
				}
			}
			return f, nil
		case err != nil:
			return f, err
		}
		t, err2 := s.commit(ctx, c)
		if err2 != nil {
			return f, err2
		}
		word := map[outcome]string{bad: "bad", good: "good", skipped: "skip"}[t.Outcome]
		said, err = git(ctx, c.tree, "bisect", word)
	}
}

const shortHash = 12

func isHash(line string) bool {
	return len(line) >= 40 && strings.Trim(line, "0123456789abcdef") == ""
}

// commit runs the command on the commit that is checked out.
func (s *search) commit(ctx context.Context, c *checkout) (trial, error) {
	what, err := git(ctx, c.tree, "show", "-s", "--format=%h %s", "HEAD")
	if err != nil {
		return trial{}, err
	}
	if err := c.link(s.o.link); err != nil {
		return trial{}, err
	}
	if info, err := os.Stat(c.cwd()); err != nil || !info.IsDir() { // it came later
		t := trial{What: what, Outcome: skipped, Line: c.prefix + " is not there"}
		s.tell(t)
		return t, nil
	}
	return s.note(ctx, what, c.cwd(), s.o.command, nil)
}

// maxDiff is how much of a commit's diff is printed, in bytes: some 400 lines.
const maxDiff = 32 << 10

// first tells of the commit that began the leak, with its diff of the file that leaks, or all where it left that alone.
func (s *search) first(ctx context.Context, c *checkout, f found, sha string) (found, error) {
	about, err := git(ctx, c.tree, "show", "-s", "--date=short", "--format=%ad %an: %s", sha)
	if err != nil {
		return f, err
	}
	hash := sha[:shortHash]
	f.First, f.About = &hash, doc.Known(about)
	names, err := git(ctx, c.tree, "diff-tree", "--no-commit-id", "--name-only", "-r", "-m", "--first-parent", sha)
	if err != nil {
		return f, err
	}
	args := []string{"show", "--format=", "--no-color", "--no-ext-diff", "-m", "--first-parent", sha, "--"}
	if file := s.leaking(c); slices.Contains(strings.Split(names, "\n"), file) {
		args = append(args, file)
	}
	diff, err := git(ctx, c.tree, args...)
	if err != nil {
		return f, err
	}
	if len(diff) > maxDiff {
		cut := strings.LastIndexByte(diff[:maxDiff], '\n')
		diff = diff[:cut] + fmt.Sprintf("\n… %d more bytes: git show %s", len(diff)-cut, hash)
	}
	f.Diff = doc.Known(strings.TrimLeft(diff, "\n") + "\n")
	if s.leak != nil { // the copy goes
		l := *s.leak
		l.Site = strings.TrimPrefix(l.Site, c.tree+"/")
		s.leak = &l
	}
	return f, nil
}

// leaking is the file in which what leaks is made, as git names it; "" where that is not known.
func (s *search) leaking(c *checkout) string {
	if s.leak == nil {
		return ""
	}
	site := s.leak.Site
	if i := strings.LastIndexByte(site, ':'); i > 0 {
		site = site[:i]
	}
	if !filepath.IsAbs(site) {
		site = filepath.Join(c.cwd(), site)
	}
	file, err := filepath.Rel(c.tree, site)
	if err != nil || !filepath.IsLocal(file) {
		return ""
	}
	return filepath.ToSlash(file)
}
