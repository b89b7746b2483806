package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/observe"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

type bisectOptions struct {
	good, bad     string
	link          []string
	before, after string // lock files
	python        string
	vary          string
	batch         string
	steps         int64
	json          bool

	command []string
}

func (a *commands) bisectCommand() *cobra.Command {
	o := bisectOptions{bad: "HEAD", python: "python3"}
	c := &cobra.Command{
		Use:         "bisect --good REV [flags] -- CMD…",
		Annotations: app.AboutNoSession(),
		Short:       "Find the commit, the dependency or the setting that began a leak",
		Long: "Runs CMD under observation on one commit after another, as git bisect does, until it is known which " +
			"one began to leak: a leak is\n" +
			"bad, a healthy run good, and an undecided one, or one that fails, is skipped. The commits are checked " +
			"out in a directory of their\n" +
			"own: neither your files nor your branch change. --link puts what git doesn't track there: data, .env. " +
			"Prints the commit, and the\n" +
			"part of its diff in the file that leaks. --lock-before and --lock-after find the package instead " +
			"whose newer version leaks, in an\n" +
			"environment of its own, which pip installs; --batch-size and --vary try values of a setting. A run " +
			"ends as soon as it is seen to\n" +
			"leak, and else after as many steps as that took, or --steps. Exit code 3 means that it was found.",
		Example: "  memgauge bisect --good v1.2 -- python train.py --max-steps 2000\n" +
			"  memgauge bisect --good v1.2 --bad main --link data -- torchrun --nproc-per-node 2 train.py\n" +
			"  memgauge bisect --lock-before old.txt --lock-after new.txt -- python train.py\n" +
			"  memgauge bisect --batch-size 8,16,32 -- python train.py --batch-size {batch-size}",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.command = args
			return a.bisect(c.Context(), o)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the command's name is the command's
	f.StringVar(&o.good, "good", "", "a commit, `REV`, that does not leak")
	f.StringVar(&o.bad, "bad", o.bad, "a later commit, `REV`, that leaks")
	f.StringSliceVar(&o.link, "link", nil, "link these `PATHS` of the working directory, which git doesn't track")
	f.StringVar(&o.before, "lock-before", "", "a `FILE` as pip freeze writes it, with versions that do not leak")
	f.StringVar(&o.after, "lock-after", "", "the same with versions that leak")
	f.StringVar(&o.python, "python", o.python, "with lock files: the `PYTHON` that makes the environment")
	f.StringVar(&o.vary, "vary", "", "try `NAME=a,b,c` in place of {NAME}, or as the value of --NAME")
	f.StringVar(&o.batch, "batch-size", "", "try these `SIZES`: the same as --vary batch-size=SIZES")
	f.Int64Var(&o.steps, "steps", 0, "a run that doesn't leak is healthy after so `MANY` steps")
	f.BoolVar(&o.json, "json", false, "print what was found as JSON")
	return c
}

// validate says what is searched among: commits, packages or values.
func (o *bisectOptions) validate() error {
	if o.batch != "" && o.vary == "" {
		o.vary, o.batch = "batch-size="+o.batch, ""
	}
	locks := o.before != "" || o.after != ""
	switch {
	case len(o.command) == 0:
		return app.Usage(remedy.Add(errors.New("bisect: no command"),
			"it stands behind --: memgauge bisect --good v1 -- python train.py"))
	case o.batch != "":
		return app.Usage(errors.New("bisect: --batch-size and --vary exclude each other"))
	case o.steps < 0:
		return app.Usage(errors.New("bisect: --steps is below 0"))
	case locks && (o.before == "" || o.after == ""):
		return app.Usage(errors.New("bisect: --lock-before and --lock-after belong together"))
	case o.good != "" && (locks || o.vary != "") || locks && o.vary != "":
		return app.Usage(errors.New("bisect: commits, lock files and values are searched one at a time"))
	case o.good == "" && !locks && o.vary == "":
		return app.Usage(remedy.Add(errors.New("bisect: nothing says what to search among"),
			"--good REV names a commit that does not leak; --lock-before, --vary and --batch-size search among others"))
	case o.good == "" && o.vary != "" && !strings.Contains(o.vary, "="):
		return app.Usage(fmt.Errorf("bisect: --vary %q: want NAME=a,b,c", o.vary))
	case len(o.link) > 0 && o.good == "":
		return app.Usage(errors.New("bisect: --link is about commits"))
	}
	return nil
}

// outcome is what a run says of what it ran with.
type outcome string

const (
	bad     outcome = "leak"
	good    outcome = "healthy"
	skipped outcome = "undecided"
)

// trial is one run of a search, as it is told.
type trial struct {
	What    string  `json:"what"`
	Outcome outcome `json:"outcome"`
	Line    string  `json:"verdict_line"`
	Session string  `json:"session"`
	Seconds float64 `json:"seconds"`
}

// search is a search for what began a leak.
type search struct {
	*commands
	o     bisectOptions
	steps int64         // that a healthy run makes
	last  time.Duration // that it lasts, where there are no steps
	runs  []trial
	leak  *detect.Finding // of what leaks, as it was seen last
	run   running         // try; a test has another
}

// running runs the command once: with what, in which directory, with which environment beside its own.
type running func(ctx context.Context, what, cwd string, command, env []string) (trial, error)

// try runs the command once.
func (s *search) try(ctx context.Context, what, cwd string, command, env []string) (trial, error) {
	o := observe.Trial{Leaks: true, Steps: s.steps, Lasting: s.last, RunOptions: observe.RunOptions{
		Settings: s.settings(), Command: command, Cwd: cwd, Interval: time.Second,
		// two texts of a file may have the same size and second, which is all that bytecode remembers of them
		Env: append(append([]string{"PYTHONDONTWRITEBYTECODE=1"}, usualEnv...), env...)}}
	end, err := observe.Try(ctx, o)
	if err != nil {
		return trial{}, err
	}
	t := trial{What: what, Outcome: skipped, Line: end.Report.Line(), Session: end.Session.Name, Seconds: end.Seconds}
	switch {
	case end.Failed():
		t.Line = "it ended with " + end.How
		if end.Tail != "" {
			t.Line += ": " + lastLine(end.Tail)
		}
	case end.Report.Verdict == detect.Leak:
		t.Outcome = bad
		s.leak = nil
		if list := leaks(end.Report); len(list) > 0 {
			s.leak = &list[0]
		}
		if s.steps == 0 && s.last == 0 { // as long as this a run must go on to be healthy
			if s.steps = int64(end.Report.Steps); end.Report.ByTime() {
				s.steps, s.last = 0, time.Duration(end.Seconds*float64(time.Second))
			}
		}
	case end.Report.Verdict == detect.Healthy:
		t.Outcome = good
	}
	return t, nil
}

// note runs the command once, and tells of it.
func (s *search) note(ctx context.Context, what, cwd string, command, env []string) (trial, error) {
	t, err := s.run(ctx, what, cwd, command, env)
	if err == nil {
		s.tell(t)
	}
	return t, err
}

func (s *search) tell(t trial) {
	s.runs = append(s.runs, t)
	plain.Fprintf(s.Stderr, "memgauge: %s: %s\n", plain.Line(t.What), plain.Line(t.Line))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// ends makes sure that one end leaks and the other doesn't: else nothing between them says anything.
func (s *search) ends(leaks, sound trial) error {
	switch {
	case leaks.Outcome != bad:
		return remedy.Add(fmt.Errorf("%s does not leak: %s", leaks.What, leaks.Line),
			"let it run longer; memgauge "+leaks.Session+" leak tells more")
	case sound.What != "" && sound.Outcome == bad:
		return remedy.Add(fmt.Errorf("%s leaks already: %s", sound.What, sound.Line), "name an earlier one")
	case sound.What != "" && sound.Outcome == skipped:
		return remedy.Add(fmt.Errorf("%s is not known to be healthy: %s", sound.What, sound.Line),
			"--steps lets each run go on longer; memgauge "+sound.Session+" leak tells more")
	}
	return nil
}

// commits and packages are what a search may be among, beside the values of a name.
const (
	commits  = "commits"
	packages = "packages"
)

// found is what a search ends with; docs/cli-json.md describes every member.
type found struct {
	SchemaVersion int      `json:"schema_version"`
	Among         string   `json:"among"` // commits, packages, or the name that varies
	First         *string  `json:"first"` // that leaks; null: it is one of several
	Candidates    []string `json:"candidates"`
	About         *string  `json:"about"` // the commit's date, author and subject; both versions of a package
	Leak          *string  `json:"leak"`
	Diff          *string  `json:"diff"`
	Runs          []trial  `json:"runs"`
}

func (a *commands) bisect(ctx context.Context, o bisectOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	s := &search{commands: a, o: o, steps: o.steps}
	s.run = s.try
	var f found
	var err error
	switch {
	case o.vary != "":
		f, err = s.values(ctx)
	case o.before != "":
		f, err = s.packages(ctx)
	default:
		f, err = s.commits(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if app.IsUsage(err) {
			return err
		}
		return fmt.Errorf("bisect: %w", err)
	}
	f.SchemaVersion, f.Runs = doc.JSONVersion, s.runs
	if s.leak != nil {
		f.Leak = doc.Known(leakLine(*s.leak))
	}
	return s.tellFound(f)
}

func leakLine(l detect.Finding) string {
	text := l.Name() + " " + l.PerStep()
	if l.Holder != "" {
		text += ", held by " + l.Holder
	}
	if created := l.Created(); created != "" {
		text += ", created at " + created
	}
	return text
}

// tellFound prints what was found.
func (s *search) tellFound(f found) error {
	var out bytes.Buffer
	if s.o.json {
		if err := doc.WriteJSON(&out, f); err != nil {
			return fmt.Errorf("bisect: %w", err)
		}
	} else {
		out.WriteString(f.text())
	}
	if _, err := s.Answer(s.o.json).Write(out.Bytes()); err != nil {
		return fmt.Errorf("bisect: %w", err)
	}
	if f.First == nil && len(f.Candidates) == 0 {
		return nil
	}
	return app.Exit(app.ExitFindings, nil)
}

func (f found) text() string {
	var b strings.Builder
	line := func(name string, text *string) {
		if text != nil {
			plain.Fprintf(&b, "  %-9s %s\n", name, *text)
		}
	}
	switch {
	case f.First != nil:
		plain.Fprintf(&b, "%s began the leak\n", *f.First)
	case len(f.Candidates) > 0:
		plain.Fprintf(&b, "one of these began the leak, and of those between nothing is known: %s\n",
			strings.Join(f.Candidates, ", "))
	default:
		b.WriteString("nothing leaks\n")
	}
	line("which is", f.About)
	line("leak", f.Leak)
	count := map[outcome]int{}
	for _, t := range f.Runs {
		count[t.Outcome]++
	}
	runs := fmt.Sprintf("%d: %d leak, %d healthy, %d undecided", len(f.Runs), count[bad], count[good], count[skipped])
	line("runs", &runs)
	if f.Among != commits && f.Among != packages {
		for _, t := range f.Runs {
			plain.Fprintf(&b, "  %-9s %s\n", t.What, t.Line)
		}
	}
	if f.Diff != nil {
		b.WriteString(plain.Text(*f.Diff))
	}
	return b.String()
}
