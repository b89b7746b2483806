package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

const (
	maxLock     = 4 << 20 // bytes of a lock file
	maxPackages = 5000    // of it; large ones have some hundreds
)

// lock is what a lock file says: for each package the line by which pip installs it.
type lock map[string]string

var (
	pinned   = pattern.Of(`^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(===?|@)\s*(\S.*)$`)
	joiners  = pattern.Of(`[-_.]+`)
	comments = pattern.Of(`\s+#.*$`)
)

// readLock reads a file as pip freeze writes it: name==version or name @ address on each line.
func readLock(path string) (lock, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxLock+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxLock:
		return nil, fmt.Errorf("read %s: larger than %d bytes", path, maxLock)
	}
	l := lock{}
	joined := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\\\n", " ")
	for i, line := range strings.Split(joined, "\n") {
		line = strings.TrimSpace(comments().ReplaceAllString(line, ""))
		if line == "" || line[0] == '#' {
			continue
		}
		line, _, _ = strings.Cut(line, " --hash") // one package at a time is installed from two files
		m := pinned().FindStringSubmatch(line)
		if m == nil {
			return nil, remedy.Add(fmt.Errorf("%s:%d: %q is no package with its version", path, i+1, line),
				"pip freeze > FILE writes one with all packages of an environment")
		}
		l[strings.ToLower(joiners().ReplaceAllString(m[1], "-"))] = strings.TrimSpace(line)
	}
	if len(l) > maxPackages {
		return nil, fmt.Errorf("read %s: more than %d packages", path, maxPackages)
	}
	return l, nil
}

// differing are the packages of which two lock files say something else, by name.
func differing(before, after lock) (names []string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	return names
}

// environment is a virtual environment of the search's own.
type environment struct {
	dir           *rootdir.Dir
	before, after lock
	names         []string // that differ
}

// packages searches, among the packages that two lock files differ in, the one with whose newer version the leak
// begins: the first so many are newer, the others as before.
func (s *search) packages(ctx context.Context) (f found, err error) {
	f = found{Among: packages}
	e := &environment{}
	if e.before, err = readLock(s.o.before); err == nil {
		e.after, err = readLock(s.o.after)
	}
	if err != nil {
		return f, err
	}
	if e.names = differing(e.before, e.after); len(e.names) == 0 {
		return f, errors.New("both lock files say the same")
	}
	if e.dir, err = rootdir.Temp("", "memgauge-bisect-"); err != nil {
		return f, err
	}
	defer e.dir.Discard()
	if err := e.run(ctx, s.o.python, "-m", "venv", e.path()); err != nil {
		return f, err
	}
	known := map[int]trial{}
	ask := func(newer int) (outcome, error) {
		if t, ok := known[newer]; ok {
			return t.Outcome, nil
		}
		t, err := s.with(ctx, e, newer)
		known[newer] = t
		return t.Outcome, err
	}
	for _, end := range []int{len(e.names), 0} {
		if _, err := ask(end); err != nil {
			return f, err
		}
		if err := s.ends(known[len(e.names)], known[0]); err != nil {
			return f, err
		}
	}
	lo, hi, err := narrow(0, len(e.names), ask)
	if err != nil {
		return f, err
	}
	if hi-lo > 1 {
		f.Candidates = e.names[lo:hi]
		return f, nil
	}
	name := e.names[lo]
	f.First = &name
	f.About = doc.Known(fmt.Sprintf("%s in place of %s", orNone(e.after[name]), orNone(e.before[name])))
	return f, nil
}

func orNone(line string) string {
	if line == "" {
		return "nothing"
	}
	return line
}

// narrow finds two neighbours of which the first is good and the second bad, by halves. Where a middle can't be told
// the nearest that can is taken; what is left between the two then can't be told apart.
func narrow(lo, hi int, ask func(int) (outcome, error)) (int, int, error) {
	for hi-lo > 1 {
		moved := false
		for _, at := range fromMiddle(lo, hi) {
			o, err := ask(at)
			if err != nil {
				return lo, hi, err
			}
			if moved = o != skipped; o == bad {
				hi = at
			} else if o == good {
				lo = at
			}
			if moved {
				break
			}
		}
		if !moved {
			return lo, hi, nil
		}
	}
	return lo, hi, nil
}

// fromMiddle are the numbers between two, those nearest to the middle first.
func fromMiddle(lo, hi int) (list []int) {
	for i := lo + 1; i < hi; i++ {
		list = append(list, i)
	}
	middle := (lo + hi) / 2
	off := func(i int) int { return max(i-middle, middle-i) }
	order.Stable(list, func(a, b int) int { return off(a) - off(b) })
	return list
}

// with runs the command with so many of the packages newer.
func (s *search) with(ctx context.Context, e *environment, newer int) (trial, error) {
	what := "all as before"
	switch {
	case newer == len(e.names):
		what = "all newer"
	case newer > 0:
		what = fmt.Sprintf("%d of %d newer, up to %s", newer, len(e.names), e.names[newer-1])
	}
	if err := e.install(ctx, newer); err != nil {
		if ctx.Err() != nil {
			return trial{}, ctx.Err()
		}
		t := trial{What: what, Outcome: skipped, Line: err.Error()}
		s.tell(t)
		return t, nil
	}
	bin := filepath.Join(e.path(), "bin")
	return s.note(ctx, what, "", s.o.command, []string{"VIRTUAL_ENV=" + e.path(),
		"PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH")})
}

func (e *environment) path() string { return filepath.Join(e.dir.Path(), "venv") }

// install brings the environment to a state: pip changes what differs from the one before.
func (e *environment) install(ctx context.Context, newer int) error {
	state := maps.Clone(e.before)
	var gone []string
	for i, name := range e.names {
		if i < newer {
			state[name] = e.after[name]
		}
		if state[name] == "" {
			delete(state, name)
			gone = append(gone, name)
		}
	}
	python := filepath.Join(e.path(), "bin", "python")
	pip := []string{"-m", "pip", "--disable-pip-version-check", "--no-input"}
	if len(gone) > 0 {
		if err := e.run(ctx, python, append(append(slices.Clone(pip), "uninstall", "-q", "-y"),
			gone...)...); err != nil {
			return err
		}
	}
	lines := slices.Sorted(maps.Values(state))
	if err := e.dir.ReplaceText("lock.txt", []byte(strings.Join(lines, "\n")+"\n")); err != nil {
		return err
	}
	return e.run(ctx, python, append(pip, "install", "-q", "--no-deps", "-r", filepath.Join(e.dir.Path(),
		"lock.txt"))...)
}

func (e *environment) run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	return remedy.Add(fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args[:min(3, len(args))], " "), err,
		lastLine(string(out))), "pip needs a network, or PIP_FIND_LINKS and PIP_NO_INDEX for packages on this machine")
}
