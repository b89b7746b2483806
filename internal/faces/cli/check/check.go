package check

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/evidence"
	"github.com/memgauge/memgauge/internal/judge/check"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type options struct {
	fix, diff bool
	unsafe    bool // with fix or diff: suggestions, too
	format    string
	selected  []string
	ignored   []string
	explain   string
	lsp       bool

	stdinName     string
	forceExclude  bool
	fileIgnores   []string // PATTERN:RULE
	baseline      string
	writeBaseline string
}

// formats are the forms of output, by name.
var formats = map[string]func(*bytes.Buffer, *result) error{"text": writeText, "json": writeJSON, "sarif": writeSARIF,
	"github": writeGitHub, "junit": writeJUnit}

func (a *commands) checkCommand() *cobra.Command {
	o := options{format: "text"}
	c := &cobra.Command{
		Use:   "check PATH…",
		Short: "Find leaks in training code before it runs: rules, reasons, fixes",
		Long: "Reads Python files and notebooks below each PATH and finds patterns that leak memory: losses summed " +
			"with their graphs, outputs that\n" +
			"nothing clears, figures that stay open, workers that keep what they read (docs/check.md). Nothing is " +
			"imported or run. With a session\n" +
			"(--session DIR, or one named before the command) each finding has what was measured beside it, the " +
			"largest first.\n" +
			"# memgauge: ignore[MG101] reason silences a line, as does # noqa: MG101; [tool.memgauge.check] in " +
			"pyproject.toml sets select,\n" +
			"ignore, exclude, force-exclude and per-file-ignores. PATH - is standard input. Exit code 3 means that " +
			"there are findings, 2 a mistake\n" +
			"on the command line or in the configuration, also a PATH that is not there.",
		Example: "  memgauge check train.py src/\n" +
			"  memgauge check --diff . && memgauge check --fix .\n" +
			"  memgauge check --session runs/7 train.py\n" +
			"  memgauge check --stdin-filename src/train.py - < draft.py\n" +
			"  memgauge check --write-baseline known.json . && memgauge check --baseline known.json .\n" +
			"  memgauge check --lsp  # for an editor: docs/check.md\n" +
			"  memgauge check --explain MG101",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.check(c.Context(), o, args) },
	}
	f := c.Flags()
	f.BoolVar(&o.fix, "fix", false, "mend what can be mended without changing results")
	f.BoolVar(&o.unsafe, "unsafe", false, "with --fix or --diff: make suggested fixes too; look at what they change")
	f.BoolVar(&o.diff, "diff", false, "show what --fix would change, and change nothing")
	f.StringVar(&o.format, "format", o.format, "`FORM` of the output: text, json, sarif, github, junit")
	app.Offer(c, "format", "text", "json", "sarif", "github", "junit")
	f.StringSliceVar(&o.selected, "select", nil, "only these `RULES`: MG101, MG1 (all that begin so), a name")
	f.StringSliceVar(&o.ignored, "ignore", nil, "without these `RULES`")
	f.BoolVar(&o.lsp, "lsp", false, "serve an editor on standard input and output: diagnostics, hover, code actions")
	f.StringVar(&o.explain, "explain", "", "say what a `RULE` means, why, and how to do better; all lists them")
	f.StringVar(&o.stdinName, "stdin-filename", "",
		"the `NAME` of what comes from standard input (PATH -), for messages "+
			"and settings")
	f.BoolVar(&o.forceExclude, "force-exclude", false,
		"leave out excluded files even if they are named, as pre-commit does")
	f.StringSliceVar(&o.fileIgnores, "per-file-ignores", nil, "`PATTERN:RULE` pairs: tests/*:MG405")
	f.StringVar(&o.baseline, "baseline", "", "don't tell the findings that `FILE` has")
	f.StringVar(&o.writeBaseline, "write-baseline", "", "write all findings to `FILE`, to be known from now on")
	return c
}

// result has everything that the output formats print.
type result struct {
	files    int
	findings []measured
	version  string
	mended   int
	foreign  []string       // settings of strangers, which were left out
	old      int            // findings of the baseline
	project  *check.Project // what the files tell each other
}

// measured is a finding with a session's measurements at its line.
type measured struct {
	check.Finding
	Measured *evidence.Measured
}

func (o options) validate(paths []string) error {
	switch {
	case o.lsp && (len(paths) > 0 || o.fix || o.diff || o.explain != ""):
		return errors.New("check: --lsp takes no PATH: the editor sends the texts")
	case o.lsp:
	case o.explain != "" && len(paths) > 0:
		return errors.New("check: --explain takes no PATH")
	case o.explain == "" && len(paths) == 0:
		return remedy.Add(errors.New("check: no PATH"), "memgauge check . checks everything below this directory")
	case o.fix && o.diff:
		return errors.New("check: --fix and --diff exclude each other")
	case o.unsafe && !o.fix && !o.diff:
		return errors.New("check: --unsafe needs --fix or --diff")
	case slices.Contains(paths, stdin) && len(paths) > 1:
		return errors.New("check: PATH - stands alone: standard input is one file")
	case o.stdinName != "" && !slices.Contains(paths, stdin):
		return errors.New("check: --stdin-filename needs PATH -")
	case o.baseline != "" && o.writeBaseline != "":
		return errors.New("check: --baseline and --write-baseline exclude each other")
	case formats[o.format] == nil:
		return remedy.Add(fmt.Errorf("check: --format %q: unknown", o.format),
			"formats are text, json, sarif, github, junit")
	}
	if err := (check.Selection{Select: o.selected}).Check(); err != nil {
		return fmt.Errorf("check: --select: %w", err)
	}
	if err := (check.Selection{Ignore: o.ignored}).Check(); err != nil {
		return fmt.Errorf("check: --ignore: %w", err)
	}
	for _, pair := range o.fileIgnores {
		pattern, rule, ok := strings.Cut(pair, ":")
		if err := (check.Selection{Ignore: []string{rule}}).Check(); !ok || pattern == "" || err != nil {
			return remedy.Add(fmt.Errorf("check: --per-file-ignores %q: want PATTERN:RULE", pair),
				"memgauge check --explain all lists the rules")
		}
	}
	return nil
}

func (a *commands) check(ctx context.Context, o options, paths []string) error {
	if err := o.validate(paths); err != nil {
		return app.Usage(err)
	}
	if o.lsp {
		return a.lsp(ctx, o)
	}
	if o.explain != "" {
		return a.explain(o.explain)
	}
	if slices.Contains(paths, stdin) {
		return a.checkStdin(ctx, o)
	}
	r, texts, err := o.read(paths)
	if err != nil {
		return app.Usage(fmt.Errorf("check: %w", err))
	}
	r.version = app.Version
	slices.Sort(r.foreign)
	for _, path := range slices.Compact(r.foreign) {
		plain.Fprintf(a.Stderr,
			"memgauge: %s is left out: it is another user's, in a directory where everybody may write\n", path)
	}
	if a.Named() {
		if err := a.measure(ctx, r); err != nil {
			return fmt.Errorf("check: %w", err)
		}
	}
	var out bytes.Buffer
	switch {
	case o.diff:
		err = mend(r.project, texts, func(path string, m mended) error {
			out.WriteString(check.Diff(path, m.before, m.after))
			return nil
		})
	case o.fix:
		err = mend(r.project, texts, func(path string, m mended) error {
			r.mended += m.count
			r.leave(path, m.left)
			return replace(path, m.before, m.after, slices.Contains(paths, path))
		})
	}
	if err == nil {
		err = r.compare(o)
	}
	if err == nil && !o.diff {
		err = formats[o.format](&out, r)
	}
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if _, err := a.Answer(o.format != "text" && o.format != "github").Write(out.Bytes()); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if len(r.findings) > 0 {
		return app.Exit(app.ExitFindings, nil)
	}
	return nil
}

// compare takes out what the baseline knows, or writes it.
func (r *result) compare(o options) error {
	switch {
	case o.baseline != "":
		if err := r.known(o.baseline); err != nil {
			return app.Usage(fmt.Errorf("check: %w", err))
		}
	case o.writeBaseline != "":
		if err := r.writeBaseline(o.writeBaseline); err != nil {
			return fmt.Errorf("check: --write-baseline: %w", err)
		}
		r.old, r.findings = len(r.findings), nil
	}
	return nil
}

// text is what a file holds, if something in it can be mended, and the rules that apply to it.
type text struct {
	data  []byte
	rules check.Selection
}

// read checks every file below the paths, as many at a time as there are cores.
func (o options) read(paths []string) (*result, map[string]text, error) {
	r, texts := &result{}, map[string]text{}
	p := check.NewProject()
	var parts []part
	for _, path := range paths {
		dir := path
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			dir = filepath.Dir(path)
		}
		config, err := check.ReadConfig(dir)
		if err != nil {
			return nil, nil, err
		}
		r.foreign = append(r.foreign, config.Foreign...)
		config.ForceExclude = config.ForceExclude || o.forceExclude
		files, unread, err := config.Files([]string{path})
		if err != nil {
			return nil, nil, remedy.Add(err, "name files or directories that exist")
		}
		for _, f := range unread {
			if o.selection(config).Has(f.Rule) {
				r.findings = append(r.findings, measured{Finding: f})
			}
		}
		files = slices.DeleteFunc(files, func(f string) bool { _, seen := texts[f]; return seen })
		for _, f := range files {
			texts[f] = text{}
			parts = append(parts, part{path: f, rules: o.rulesFor(config, f)})
		}
	}
	r.project = p
	every(parts, func(one *part) { one.read(p) })
	p.Link()
	every(parts, func(one *part) {
		if p.Again(one.path) {
			one.read(p)
		}
	})
	for _, one := range parts {
		texts[one.path] = one.text
		r.files++
		for _, found := range one.found {
			r.findings = append(r.findings, measured{Finding: found})
		}
	}
	return r, texts, nil
}

// part is a file of many.
type part struct {
	path  string
	rules check.Selection
	found []check.Finding
	text
}

// read checks the file; its text is kept only if something in it is to be mended: all texts together would be much.
func (o *part) read(p *check.Project) {
	found, data := p.Read(o.path, o.rules)
	o.found, o.text = found, text{}
	if slices.ContainsFunc(found, check.Finding.Fixable) {
		o.text = text{data, o.rules}
	}
}

func (o options) selection(c check.Config) check.Selection {
	s := check.Selection{Select: o.selected, Ignore: append(slices.Clone(c.Ignore), o.ignored...), Unsafe: o.unsafe}
	if len(s.Select) == 0 {
		s.Select = c.Select
	}
	return s
}

// rulesFor are the rules for one file, less those that the command line takes out for it.
func (o options) rulesFor(c check.Config, path string) check.Selection {
	more := check.Config{Dir: c.Dir, PerFileIgnores: map[string][]string{}}
	if more.Dir == "" {
		more.Dir, _ = os.Getwd()
	}
	for _, pair := range o.fileIgnores {
		pattern, rule, _ := strings.Cut(pair, ":")
		more.PerFileIgnores[pattern] = append(more.PerFileIgnores[pattern], rule)
	}
	return more.For(path, c.For(path, o.selection(c)))
}

// every does some work for each file, for as many at a time as there are cores and as weigh no more than there is room.
func every(parts []part, work func(*part)) {
	next := make(chan int)
	room := semaphore.NewWeighted(check.MaxWeight)
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		wait.Go(func() {
			for i := range next {
				weight := check.Weight(parts[i].path)
				if room.Acquire(context.Background(), weight) != nil {
					continue // never: nothing weighs more than there is room
				}
				work(&parts[i])
				room.Release(weight)
			}
		})
	}
	for i := range parts {
		next <- i
	}
	close(next)
	wait.Wait()
}

// measure adds a session's measurements to the findings, and sorts those first that hold or grow most.
func (a *commands) measure(ctx context.Context, r *result) error {
	s, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	seen, err := evidence.Gather(ctx, s)
	if err != nil {
		return err
	}
	for i := range r.findings {
		if m, ok := seen.For(r.findings[i].Finding); ok {
			r.findings[i].Measured = &m
		}
	}
	order.Stable(r.findings, func(a, b measured) int {
		return cmp.Or(cmp.Compare(b.pace(), a.pace()), cmp.Compare(b.size(), a.size()))
	})
	return nil
}

func (m measured) pace() float64 {
	if m.Measured == nil {
		return 0
	}
	return m.Measured.PerStep
}

func (m measured) size() int64 {
	if m.Measured == nil {
		return 0
	}
	return m.Measured.Bytes
}

// mended is a file in its mended form, and what is left to be found in it.
type mended struct {
	before, after []byte
	left          []check.Finding
	count         int
}

// mend mends each file in which something can be.
func mend(p *check.Project, texts map[string]text, then func(path string, m mended) error) error {
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		t := texts[path]
		if t.data == nil {
			continue
		}
		after, left, n, err := p.Mend(path, t.data, t.rules)
		if err == nil && n > 0 {
			err = then(path, mended{t.data, after, left, n})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leave makes those the file's findings that are left, with what was measured for them before their lines moved.
func (r *result) leave(path string, left []check.Finding) {
	same := func(a, b check.Finding) bool {
		return a.Rule.ID == b.Rule.ID && a.Source == b.Source && a.Message == b.Message
	}
	r.findings = slices.DeleteFunc(r.findings, func(m measured) bool {
		return m.Path == path && !slices.ContainsFunc(left, func(f check.Finding) bool { return same(f, m.Finding) })
	})
	for i, m := range r.findings {
		at := slices.IndexFunc(left, func(f check.Finding) bool { return m.Path == path && same(f, m.Finding) })
		if at >= 0 {
			r.findings[i].Finding = left[at]
			left = slices.Delete(left, at, at+1)
		}
	}
	for _, f := range left {
		r.findings = append(r.findings, measured{Finding: f})
	}
}

// replace writes a mended file, through a link only if the link was named itself. What has changed since it was read
// stays as it is.
func replace(path string, before, after []byte, named bool) error {
	out, err := sink.Rewrite(path, named)
	if err != nil {
		return err
	}
	defer out.Discard()
	now, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, before) {
		return fmt.Errorf("write %s: it has changed since it was read", path)
	}
	if _, err := out.Write(after); err != nil {
		return err
	}
	return out.Commit()
}

// explain prints a rule's page, or the list of all rules.
func (a *commands) explain(name string) error {
	if strings.EqualFold(name, "all") {
		for _, r := range check.Rules() {
			fmt.Fprintf(a.Text(), "%s  %-8s %s\n", r.ID, r.Severity, r.Name)
		}
		return nil
	}
	r, ok := check.Find(name)
	if !ok {
		return app.Usage(remedy.Add(fmt.Errorf("check: --explain %q: there is no such rule", name),
			"memgauge check --explain all lists them"))
	}
	_, err := fmt.Fprint(a.Text(), r.Page())
	return err
}
