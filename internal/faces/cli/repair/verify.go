package repair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/observe"
	"github.com/memgauge/memgauge/internal/faces/shadow"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// tried is what running the program with the changes has shown.
type tried struct {
	Gone    bool           `json:"gone"`
	Verdict detect.Verdict `json:"verdict"`
	Line    string         `json:"verdict_line"`
	Steps   int64          `json:"steps"`
	Asked   int64          `json:"steps_asked"` // as many as the leak took to be seen; 0: no steps
	Session string         `json:"session"`
	Losses  compared       `json:"losses"`
	Peaks   []peak         `json:"peaks"`
}

// compared are the losses of the program as it is and as it would be.
type compared struct {
	Equal string `json:"equal"` // yes, no, unknown
	Count int    `json:"count"`
	Why   string `json:"why"` // it is not known, or where they differ; "" else
}

const (
	same      = "yes"
	different = "no"
	unknown   = "unknown"
)

// peak is a memory's highest reading in the session and with the changes.
type peak struct {
	Memory string `json:"memory"`
	Before *int64 `json:"before_bytes"`
	After  *int64 `json:"after_bytes"`
}

// usualEnv is what makes two runs alike: output that comes as it is printed, sets in the same order.
var usualEnv = []string{"PYTHONUNBUFFERED=1", "PYTHONHASHSEED=0"}

// verify runs the program with the changes, in a copy of its directory.
func (a *commands) verify(ctx context.Context, o fixOptions, p *plan) (*tried, error) {
	command, err := p.command(o)
	if err != nil {
		return nil, err
	}
	changes := map[string][]byte{}
	for _, f := range p.files {
		if rel, err := filepath.Rel(p.about.Cwd, f.path); err != nil || !filepath.IsLocal(rel) {
			return nil, remedy.Add(fmt.Errorf("%s is not below %s, where the program runs: it can't run in a copy",
				f.path,
				p.about.Cwd), "write the change with --apply, and run the program with memgauge run")
		}
		changes[f.path] = f.after
	}
	trial := observe.Trial{Steps: p.steps}
	if trial.Steps == 0 {
		trial.Lasting = time.Duration(p.report.Seconds * float64(time.Second))
	}
	tree, err := shadow.Make(p.about.Cwd, changes)
	if err != nil {
		return nil, err
	}
	defer tree.Remove()
	trial.RunOptions = a.options(tree, command)
	trial.Name = fixedName(p.about.Name)
	plain.Fprintf(a.Stderr, "memgauge: running %s with the change%s\n", strings.Join(secret.Args(command), " "),
		p.howLong())
	end, err := observe.Try(ctx, trial)
	switch {
	case err != nil:
		return nil, err
	case end.Trouble != nil:
		plain.Fprintf(a.Stderr, "memgauge: %v\n", end.Trouble)
	}
	if end.Failed() {
		return nil, remedy.Add(fmt.Errorf("with the change the program ended with %s:\n%s", end.How, end.Tail),
			"nothing is written; run it as it is, to see whether it does that anyway")
	}
	t := &tried{Gone: end.Report.Verdict == detect.Healthy, Verdict: end.Report.Verdict, Line: end.Report.Line(),
		Steps: int64(end.Report.Steps), Asked: p.steps, Session: end.Session.Name, Peaks: p.against(end)}
	if t.Losses, err = a.compareLosses(ctx, o, p, command, end); err != nil {
		return nil, err
	}
	return t, nil
}

func (p *plan) howLong() string {
	if p.steps == 0 {
		return ", for as long as the first run lasted"
	}
	return fmt.Sprintf(", for %s steps: as many as the leak took to be seen", units.Count(p.steps))
}

// options run a command in a copy.
func (a *commands) options(t *shadow.Tree, command []string) observe.RunOptions {
	env := slices.Clone(usualEnv)
	if path := t.PythonPath(); path != "" {
		env = append(env, "PYTHONPATH="+path)
	}
	return observe.RunOptions{Settings: a.settings(), Command: t.Command(command), Cwd: t.Path(), Env: env,
		Interval: time.Second}
}

// settings are those that memgauge run has where no flag says otherwise.
func (a *commands) settings() observe.Settings {
	return observe.Settings{Budget: "1%", Trace: "auto", MaxDisk: "2GiB", Version: app.Version,
		Note: func(note string) { plain.Fprintf(a.Stderr, "memgauge: %s\n", note) }}
}

// fixedName is the name of the session of a run with the changes. Names have a bound.
func fixedName(name string) string {
	if name += "-fixed"; observe.CheckName(name) != nil {
		return "fixed"
	}
	return name
}

// command is what to run: what was given, else what the session ran.
func (p *plan) command(o fixOptions) ([]string, error) {
	if len(o.command) > 0 {
		return o.command, nil
	}
	const hint = "name the command: memgauge fix --verify -- python train.py"
	switch {
	case len(p.about.Command) == 0:
		return nil, remedy.Add(errors.New("the session does not say which command it ran"), hint)
	case slices.ContainsFunc(p.about.Command, func(arg string) bool { return strings.Contains(arg, secret.Hidden) }):
		return nil, remedy.Add(errors.New("the session's command had a secret, which was not recorded"), hint)
	}
	return p.about.Command, nil
}

// against are the peaks before and after.
func (p *plan) against(end observe.Tried) (list []peak) {
	all := map[string]*peak{}
	of := func(memory string) *peak {
		if all[memory] == nil {
			all[memory] = &peak{Memory: memory}
		}
		return all[memory]
	}
	for _, h := range p.peaks {
		of(h.Memory).Before = &h.Bytes
	}
	for _, h := range end.Peaks {
		of(h.Memory).After = &h.Bytes
	}
	for _, memory := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[memory])
	}
	return list
}

// lossesWithin is how much longer than the run with the changes the program may take until its losses are known.
const lossesWithin = 2

// compareLosses runs the program as it is, without observation, until it has printed the losses that are to be
// compared. Where they differ it runs once more: a program without a fixed seed differs from itself.
func (a *commands) compareLosses(ctx context.Context, o fixOptions, p *plan, command []string,
	end observe.Tried) (compared, error) {
	n := min(o.losses, len(end.Losses))
	switch {
	case o.losses == 0:
		return compared{unknown, 0, "it was not asked for"}, nil
	case n == 0:
		return compared{unknown, 0, "the program prints none"}, nil
	}
	once := func() ([]string, error) {
		tree, err := shadow.Make(p.about.Cwd, nil)
		if err != nil {
			return nil, err
		}
		defer tree.Remove()
		within := time.Duration(lossesWithin*end.Seconds*float64(time.Second)) + time.Minute
		return observe.Losses(ctx, a.options(tree, command), n, within)
	}
	plain.Fprintf(a.Stderr, "memgauge: running it as it is, until it has printed %d losses\n", n)
	before, err := once()
	if err != nil || ctx.Err() != nil {
		return compared{}, errors.Join(err, ctx.Err())
	}
	c := compareTexts(before, end.Losses)
	if c.Equal != different {
		return c, nil
	}
	again, err := once()
	if err != nil || ctx.Err() != nil {
		return compared{}, errors.Join(err, ctx.Err())
	}
	if compareTexts(before, again).Equal == different {
		c.Equal, c.Why = unknown, "the program differs from itself from run to run: fix its seed"
	}
	return c, nil
}

// compareTexts compares losses as they were printed.
func compareTexts(before, after []string) compared {
	n := min(len(before), len(after))
	if n == 0 {
		return compared{unknown, 0, "the program as it is printed none"}
	}
	for i := range n {
		if before[i] != after[i] {
			return compared{different, n, fmt.Sprintf("number %d is %s, and was %s", i+1, after[i], before[i])}
		}
	}
	return compared{same, n, ""}
}

// text is what was seen, for people.
func (t *tried) text() string {
	var b strings.Builder
	switch {
	case t.Gone:
		b.WriteString("with the change: the leak is gone")
	case t.Verdict == detect.Leak:
		fmt.Fprintf(&b, "with the change: there is still a leak: %s", t.Line)
	default:
		fmt.Fprintf(&b, "with the change: not known whether the leak is gone: %s", t.Line)
	}
	if t.Steps > 0 {
		fmt.Fprintf(&b, " (%s steps)", units.Count(t.Steps))
	}
	switch l := t.Losses; l.Equal {
	case same:
		fmt.Fprintf(&b, "; the first %d losses are the same", l.Count)
	case different:
		fmt.Fprintf(&b, "; losses differ: %s", l.Why)
	default:
		fmt.Fprintf(&b, "; losses were not compared: %s", l.Why)
	}
	for _, p := range t.Peaks {
		fmt.Fprintf(&b, "; peak of %s %s, was %s", p.Memory, size(p.After), size(p.Before))
	}
	fmt.Fprintf(&b, "; session %s", t.Session)
	return b.String()
}

func size(n *int64) string {
	if n == nil {
		return "not known"
	}
	return doc.Size(*n)
}
