package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type fixOptions struct {
	apply  bool
	unsafe bool
	verify bool
	prompt bool
	json   bool
	losses int

	command []string // behind --; none: the session's own
}

func (a *commands) fixCommand() *cobra.Command {
	o := fixOptions{losses: 10}
	c := &cobra.Command{
		Use:   "fix [SESSION] [-- CMD…]",
		Short: "Propose the change of the code that ends a leak, try it, write it",
		Long: "Finds the change of the program's own code that ends each leak of a session, and prints it as a " +
			"diff: a bound for what is never\n" +
			"emptied, .detach() where a graph is kept, a size for a cache or a queue, a hook that is removed. A " +
			"change that may alter results\n" +
			"is suggested: what to look at is said, and it is written only with --unsafe, or after --verify. " +
			"--verify runs the session's command,\n" +
			"or CMD, with the change, in a copy of the working directory, for as long as the leak took to be seen, " +
			"and says whether it is gone,\n" +
			"whether the losses that the program prints stay the same, and both peaks. A file that has changed " +
			"since the session began is left\n" +
			"alone. Where no change is known, --prompt has what somebody else, or an assistant, needs. Exit code 3 " +
			"means that there is a leak\n" +
			"that is not mended.",
		Example: "  memgauge fix\n" +
			"  memgauge fix --verify --apply\n" +
			"  memgauge fix my-run --verify -- python train.py --epochs 1\n" +
			"  memgauge fix --prompt | assistant",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if at := c.ArgsLenAtDash(); at >= 0 {
				args, o.command, o.verify = args[:at], args[at:], true
			}
			return a.fix(c.Context(), o, args)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.apply, "apply", false, "write the changes; the text before is kept beside each file, as FILE.orig")
	f.BoolVar(&o.unsafe, "unsafe", false, "with --apply: suggested changes too; look at what they change")
	f.BoolVar(&o.verify, "verify", false, "run the program with the changes, and compare; with --apply: write them "+
		"if the leak is gone")
	f.BoolVar(&o.prompt, "prompt", false, "print the evidence and the code as a request to an assistant")
	f.BoolVar(&o.json, "json", false, "print the changes as JSON")
	f.IntVar(&o.losses, "losses", o.losses, "with --verify: compare so `MANY` losses; 0: none")
	return c
}

func (o fixOptions) validate(args []string) error {
	switch {
	case len(args) > 1:
		return app.Usage(remedy.Add(fmt.Errorf("fix: %d sessions are named, and one is fixed at a time", len(args)),
			"a command to run stands behind --: memgauge fix -- python train.py"))
	case o.prompt && (o.apply || o.verify || o.json):
		return app.Usage(errors.New("fix: --prompt stands alone"))
	case o.unsafe && !o.apply:
		return app.Usage(errors.New("fix: --unsafe needs --apply"))
	case o.losses < 0 || o.losses > maxCompared:
		return app.Usage(fmt.Errorf("fix: --losses %d: not between 0 and %d", o.losses, maxCompared))
	}
	return nil
}

// maxCompared is how many losses may be compared: the program runs twice for them.
const maxCompared = 1000

func (a *commands) fix(ctx context.Context, o fixOptions, args []string) error {
	if err := o.validate(args); err != nil {
		return err
	}
	if len(args) == 1 {
		if a.Named() {
			return app.Usage(errors.New("fix: two sessions are named, before and behind the command"))
		}
		a.Say(args[0])
	}
	if err := a.Needs(source.Session); err != nil {
		return err
	}
	p, err := a.plan(ctx)
	if err != nil {
		return fmt.Errorf("fix: %w", err)
	}
	if o.prompt {
		return a.fixPrompt(p)
	}
	if o.verify && len(p.files) > 0 {
		if p.tried, err = a.verify(ctx, o, p); err != nil {
			return fmt.Errorf("fix: %w", err)
		}
	}
	if o.apply && p.mayApply(o) {
		if p.applied, err = apply(p.files); err != nil {
			return fmt.Errorf("fix: %w", err)
		}
	}
	return a.tellFix(o, p)
}

// plan asks the session for its leaks, and the code for what ends them.
func (a *commands) plan(ctx context.Context) (*plan, error) {
	t, err := a.Target(ctx)
	if err != nil {
		return nil, err
	}
	s, err := t.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	about, err := s.About(ctx)
	if err != nil {
		return nil, err
	}
	report, err := s.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return nil, err
	}
	p := newPlan(about, report)
	if p.peaks, err = api.Ask(ctx, s, questions.Peaks); err != nil {
		return nil, err
	}
	p.steps, err = firstSeen(ctx, s, report)
	return p, err
}

// firstSeen is the step by which the session was first called a leak: as long as that the program must run again before
// "healthy" means something. 0 where there are no steps.
func firstSeen(ctx context.Context, s api.Session, r detect.Report) (int64, error) {
	rows, err := api.Ask(ctx, s, questions.FirstSeen)
	if err != nil || r.ByTime() {
		return 0, err
	}
	if len(rows) == 1 && rows[0].Step > 0 {
		return rows[0].Step, nil
	}
	return int64(r.Steps), nil
}

// mayApply reports whether the changes may be written: all are sure, or somebody said that suggestions may be, or they
// have been tried and the leak was gone.
func (p *plan) mayApply(o fixOptions) bool {
	if p.tried != nil {
		return p.tried.Gone && p.tried.Losses.Equal != different
	}
	return len(p.files) > 0 && (o.unsafe || p.sure())
}

// apply writes the changed files, each in one step, and the text before beside it. A file that is not as it was read is
// left alone, and so are all others then.
func apply(files []changed) (done []applied, err error) {
	for _, f := range files {
		now, err := os.ReadFile(f.path)
		if err == nil && !bytes.Equal(now, f.before) {
			err = fmt.Errorf("write %s: it has changed since it was read", f.path)
		}
		if err == nil {
			if _, there := os.Lstat(f.path + kept); there == nil {
				err = remedy.Add(fmt.Errorf("write %s: it is there already", f.path+kept),
					"move it away: it is the text "+
						"before an earlier change")
			}
		}
		if err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		if err := write(f); err != nil {
			return done, err
		}
		done = append(done, applied{f.path, f.path + kept})
	}
	return done, nil
}

// kept is what the text before a change is called beside the file, as patch(1) calls it.
const kept = ".orig"

func write(f changed) error {
	err := rootdir.In(f.path+kept, func(d *rootdir.Dir, name string) error { return d.MakeText(name, f.before) })
	if err != nil {
		return err
	}
	out, err := sink.Rewrite(f.path, false)
	if err != nil {
		return err
	}
	defer out.Discard()
	if _, err := out.Write(f.after); err != nil {
		return err
	}
	return out.Commit()
}

// tellFix prints what was found, and what was done about it.
func (a *commands) tellFix(o fixOptions, p *plan) error {
	var out bytes.Buffer
	if o.json {
		if err := doc.WriteJSON(&out, p.document()); err != nil {
			return fmt.Errorf("fix: %w", err)
		}
	} else {
		out.WriteString(p.text())
	}
	if _, err := a.Answer(o.json).Write(out.Bytes()); err != nil {
		return fmt.Errorf("fix: %w", err)
	}
	if why := p.notApplied(o); why != "" {
		return app.Exit(app.ExitFindings, errors.New("fix: "+why))
	}
	if p.report.Verdict != detect.Leak || len(p.applied) > 0 && p.all() || p.tried != nil && p.tried.Gone && p.all() {
		return nil
	}
	return app.Exit(app.ExitFindings, nil)
}

// notApplied says why nothing was written though it was asked for; "" where it was not asked for, or was done.
func (p *plan) notApplied(o fixOptions) string {
	switch {
	case !o.apply || len(p.applied) > 0 || len(p.files) == 0:
		return ""
	case p.tried != nil && !p.tried.Gone:
		return "nothing is written: " + strings.TrimSuffix(p.tried.text(), ".")
	case p.tried != nil:
		return "nothing is written: the losses are others than before"
	}
	return "nothing is written: the change is suggested, and may alter results; --verify tries it first, --unsafe " +
		"writes it as it is"
}
