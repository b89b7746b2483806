package advise

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/advise"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/doctor"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type adviseOptions struct {
	json   bool
	output string
	force  bool
	python string
}

func (a *commands) adviseCommand() *cobra.Command {
	var o adviseOptions
	c := &cobra.Command{
		Use:   "advise",
		Short: "Say which settings a training should have, with what each saves in this session",
		Long: "With a session (named before the command, or --session DIR) each piece of advice comes from its " +
			"data: what it saves, measured\n" +
			"or simulated, how sure that is, what it costs in time, and how it is set in plain PyTorch, " +
			"Lightning and Hugging Face. What the\n" +
			"data don't support is not said; \"nothing to change\" is an answer. Without a session the advice " +
			"is for this machine alone.\n" +
			"-o safe_training.yaml writes values for this machine under the keys of the leak guide (docs/advise.md).",
		Example: "  memgauge advise\n" +
			"  memgauge 27891 advise\n" +
			"  memgauge advise --session runs/7 --json\n" +
			"  memgauge advise -o safe_training.yaml",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.advise(cmd.Context(), o) },
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.StringVarP(&o.output, "output", "o", "", "write safe_training.yaml's values to `FILE`")
	f.BoolVar(&o.force, "force", false, "overwrite FILE")
	f.StringVar(&o.python, "python", "", "examine the interpreter `PATH` instead of python3")
	return c
}

// advised is everything that advise has to show.
type advised struct {
	SchemaVersion int             `json:"schema_version"`
	About         string          `json:"about"` // machine, or the session's name
	Steps         *int64          `json:"steps"` // of the session
	Advice        []advise.Advice `json:"advice"`
	Notes         []string        `json:"notes"`
	Safe          advise.Values   `json:"safe_training"`
	Figures       doctor.Figures  `json:"machine"`
	RanOut        string          `json:"ran_out,omitempty"` // how the session ended, where memory ran out

	endpoint string
}

func (a *commands) advise(ctx context.Context, o adviseOptions) error {
	if _, err := os.Lstat(o.output); o.output != "" && !o.force && err == nil {
		return remedy.Add(fmt.Errorf("advise: %s is there already", o.output), "--force overwrites it")
	}
	r, err := a.gather(ctx, o)
	if err != nil {
		return fmt.Errorf("advise: %w", err)
	}
	if o.output != "" {
		if err := writeYAML(o.output, r); err != nil {
			return fmt.Errorf("advise: %w", err)
		}
	}
	out := &sink.Spool{To: a.Answer(o.json)}
	defer out.Discard()
	if o.json {
		err = doc.WriteJSON(out, r)
	} else {
		err = writeAdvice(out, r, o.output)
	}
	if err == nil {
		err = out.Commit()
	}
	if err != nil {
		return fmt.Errorf("advise: %w", err)
	}
	return nil
}

func (a *commands) gather(ctx context.Context, o adviseOptions) (*advised, error) {
	if o.python != "" {
		if _, err := exec.LookPath(o.python); err != nil {
			return nil, remedy.Add(fmt.Errorf("--python %q: there is no such interpreter: %w", o.python, err),
				"give its path: --python .venv/bin/python")
		}
	}
	m, err := doctor.Here(o.python)
	if err != nil {
		return nil, err
	}
	found := m.Examine(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &advised{SchemaVersion: doc.JSONVersion, About: "this machine", Figures: found.Figures,
		Safe: advise.ForMachine(found.Figures, found.Suggestions), Advice: []advise.Advice{}, Notes: []string{}}
	if !a.Named() {
		r.Advice = append(r.Advice, advise.Machine(found.Figures, found.Suggestions)...)
		r.Notes = append(r.Notes, "no session was named, so nothing is measured: memgauge run -- python "+
			"train.py makes one")
		return r, nil
	}
	s, err := a.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return r, r.ask(ctx, s)
}

// ask fills in what the session says.
func (r *advised) ask(ctx context.Context, s api.Session) error {
	about, err := s.About(ctx)
	if err != nil {
		return err
	}
	report, err := advise.Session(ctx, s)
	if err != nil {
		return err
	}
	r.endpoint = about.Name
	end, err := s.End(ctx)
	if err != nil {
		return err
	}
	if end.OOM != "" {
		r.RanOut = end.Text
	}
	r.About, r.Steps = "session "+about.Name, doc.KnownCount(report.Steps)
	r.Advice, r.Notes = append(r.Advice, report.Advice...), append(r.Notes, report.Notes...)
	if about.Snapshot == nil {
		r.Notes = append(r.Notes, "the session keeps no memory snapshot, so no setting of PyTorch's allocator "+
			"was tried "+
			"(memgauge run --record-memory, or memgauge snapshot take)")
		return nil
	}
	var setting *advise.Advice
	var note string
	path, err := s.SnapshotFile(ctx)
	if err == nil {
		setting, note, err = advise.Allocator(ctx, path)
	}
	switch {
	case err != nil:
		r.Notes = append(r.Notes, fmt.Sprintf("the session's memory snapshot was not read: %v", err))
	case setting != nil:
		r.Advice = append(r.Advice, *setting)
	default:
		r.Notes = append(r.Notes, note)
	}
	return ctx.Err()
}

func writeYAML(path string, r *advised) error {
	f, err := sink.Create(path)
	if err != nil {
		return remedy.Add(err, "name a file in a directory that can be written")
	}
	defer f.Discard()
	why := fmt.Sprintf("for this machine, %s and %s of host memory free", doc.Plural(r.Figures.CPUs, "core"),
		doc.Size(r.Figures.FreeBytes))
	if r.Figures.GPUs > 0 {
		why += fmt.Sprintf(", %s of GPU memory free", doc.Size(r.Figures.GPUFreeBytes))
	}
	if _, err := io.WriteString(f, r.Safe.YAML(why)); err != nil {
		return err
	}
	return f.Commit()
}

func writeAdvice(w io.Writer, r *advised, output string) error {
	var b bytes.Buffer
	plain.Fprintf(&b, "advice for %s", r.About)
	if r.Steps != nil {
		plain.Fprintf(&b, ", from %s", doc.Plural(int(*r.Steps), "step"))
	}
	b.WriteString("\n")
	switch {
	case len(r.Advice) == 0 && r.RanOut != "":
		plain.Fprintf(&b, "\nMemory ran out (%s), and the data don't say which setting would have helped: memgauge %s "+
			"oom and leak tell what filled it.\n", r.RanOut, r.endpoint)
	case len(r.Advice) == 0:
		b.WriteString("\nNothing to change: the data support no advice.\n")
	}
	for i := range r.Advice {
		one(&b, i+1, &r.Advice[i])
	}
	if len(r.Notes) > 0 {
		b.WriteString("\nNot judged, or nothing to gain:\n")
	}
	for _, n := range r.Notes {
		plain.Fprintf(&b, "  %s\n", n)
	}
	if output != "" {
		plain.Fprintf(&b, "\nValues for this machine are in %s.\n", output)
	}
	_, err := plain.NewWriter(w).Write(b.Bytes())
	return err
}

func one(b *bytes.Buffer, number int, a *advise.Advice) {
	saves := "not known"
	if a.Saves != nil {
		saves = doc.Size(*a.Saves) + " (" + a.Known + ")"
		if a.Known == advise.Bounded {
			saves = "at most " + saves
		}
	} else if a.Known == advise.Measured {
		saves = "see why"
	}
	plain.Fprintf(b, "\n%d  %s: %s   [%s]\n", number, a.Setting, a.Change, a.Memory)
	lines := [][2]string{{"saves", saves}, {"why", a.Evidence}, {"sure", a.Sure}, {"costs", a.Costs}}
	if a.Set.Plain == a.Set.Lightning && a.Set.Plain == a.Set.HuggingFace {
		lines = append(lines, [2]string{"set", a.Set.Plain})
	} else {
		lines = append(lines, [2]string{"PyTorch", a.Set.Plain}, [2]string{"Lightning", a.Set.Lightning},
			[2]string{"HF", a.Set.HuggingFace})
	}
	for _, l := range lines {
		if strings.TrimSpace(l[1]) != "" {
			plain.Fprintf(b, "   %-10s %s\n", l[0], l[1])
		}
	}
}
