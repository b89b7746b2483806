package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type stagesOptions struct {
	json, each  bool
	annotations []string
}

func (a *commands) snapshotStagesCommand(shared *snapshotOptions) *cobra.Command {
	var o stagesOptions
	c := &cobra.Command{
		Use:   "stages FILE",
		Short: "What was live when marked parts of the program began and ended",
		Long: "Tells for each name that the program has marked (torch.profiler.record_function, PyTorch's\n" +
			"optimizers, torch.cuda.memory._set_memory_metadata) how often it ran, what was live when it\n" +
			"began and ended, how that changed, and the highest level inside. Numbers in names are left\n" +
			"out: ProfilerStep#N. --each lists every pass.",
		Example: "  memgauge snapshot stages snapshot.pickle\n" +
			"  memgauge snapshot stages snapshot.pickle --annotation forward --annotation backward --each\n" +
			"  memgauge snapshot stages snapshot.pickle --json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotStages(cmd.Context(), shared, o, args[0])
		},
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.BoolVar(&o.each, "each", false, "every pass, in order")
	f.StringArrayVar(&o.annotations, "annotation", nil, "only names that have `TEXT` in them; can be repeated")
	return c
}

// stagesDoc is the document of --json.
type stagesDoc struct {
	SchemaVersion int            `json:"schema_version"`
	File          string         `json:"file"`
	Devices       []deviceStages `json:"devices"`
}

type deviceStages struct {
	Device int                `json:"device"`
	From   int64              `json:"from_time_us"`
	Names  []anatomy.StageSum `json:"names"`
	Stages []anatomy.Stage    `json:"stages,omitempty"` // with --each
}

func (a *commands) snapshotStages(ctx context.Context, s *snapshotOptions, o stagesOptions, path string) error {
	h, _, err := a.readHistory(ctx, s, path)
	if err != nil {
		return fmt.Errorf("snapshot stages: %s: %w", path, err)
	}
	defer h.Close()
	told := stagesDoc{SchemaVersion: 1, File: path, Devices: []deviceStages{}}
	for _, d := range h.Devices {
		if d.From == d.To {
			continue
		}
		stages := slices.DeleteFunc(h.Stages(d), func(s anatomy.Stage) bool { return !o.wants(s.Name) })
		one := deviceStages{Device: d.Number, From: h.Time[d.From], Names: anatomy.StageSums(stages)}
		if o.each {
			one.Stages = stages
		}
		if one.Names == nil {
			one.Names = []anatomy.StageSum{}
		}
		told.Devices = append(told.Devices, one)
	}
	return a.tell(o.json, told, told.write)
}

// stageName is a name for people: what events carried is told from what was marked.
func stageName(name string, metadata bool) string {
	if metadata {
		return "metadata: " + name
	}
	return name
}

// wants tells whether a name is asked for.
func (o *stagesOptions) wants(name string) bool {
	return len(o.annotations) == 0 ||
		slices.ContainsFunc(o.annotations, func(part string) bool { return strings.Contains(name, part) })
}

// tell prints a document as JSON or as text.
func (a *commands) tell(asJSON bool, told any, text func(w io.Writer)) error {
	out := &sink.Spool{To: a.Answer(asJSON)}
	defer out.Discard()
	if asJSON {
		if err := doc.WriteJSON(out, told); err != nil {
			return err
		}
	} else {
		text(out)
	}
	return out.Commit()
}

func (t *stagesDoc) write(w io.Writer) {
	fmt.Fprintf(w, "%s\n", t.File)
	for _, d := range t.Devices {
		fmt.Fprintf(w, "\ndevice %d: %s\n", d.Device, doc.Plural(len(d.Names), "name"))
		if len(d.Names) == 0 {
			fmt.Fprint(w, "  no marks: torch.profiler.record_function(\"step\") makes them\n")
			continue
		}
		table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		if d.Stages != nil {
			fmt.Fprint(table, "  name\tbegins after\tlive then\tat most\tends after\tlive then\tchange\n")
			for _, s := range d.Stages {
				ends := micros(s.End.Time - d.From)
				if !s.Ended {
					ends = "not in the file"
				}
				fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", stageName(s.Name, s.Metadata),
					micros(s.Start.Time-d.From),
					doc.Size(s.Start.Live), doc.Size(s.Peak), ends, doc.Size(s.End.Live),
					doc.SignedSize(s.End.Live-s.Start.Live))
			}
		} else {
			fmt.Fprint(table, "  name\ttimes\tlive when it begins\tlive when it ends\tchange, all together\tat most\n")
			for _, n := range d.Names {
				fmt.Fprintf(table, "  %s\t%d\t%s\t%s\t%s\t%s, in pass %d\n", stageName(n.Name, n.Metadata), n.Times,
					span(n.Start), span(n.End), doc.SignedSize(n.Change), doc.Size(n.Peak), n.PeakOf+1)
			}
		}
		table.Flush()
	}
}

// span is the least and the most of some sizes.
func span(sizes [2]int64) string {
	if sizes[0] == sizes[1] {
		return doc.Size(sizes[0])
	}
	return doc.Size(sizes[0]) + " to " + doc.Size(sizes[1])
}

type categoriesOptions struct {
	json       bool
	by, output string
	rules      []string
	moments    int
}

func (a *commands) snapshotCategoriesCommand(shared *snapshotOptions) *cobra.Command {
	o := categoriesOptions{moments: 10}
	c := &cobra.Command{
		Use:   "categories FILE [--category NAME=REGEX]…",
		Short: "What was live over time, by categories of your own",
		Long: "Follows the live bytes by category: after each of N stretches of as many events, at the peak,\n" +
			"and for each category when it had most. --category NAME=REGEX makes one: it has what was\n" +
			"allocated below a frame whose function or file REGEX matches (RE2, anywhere in it), or to which\n" +
			"the program has attached a text that matches (_set_memory_metadata, _annotate_tensor). Of\n" +
			"several that match the first counts; what none matches is counted by use (docs/snapshot.md),\n" +
			"and with --by metadata first by the text that was set when it was allocated. -o OUTPUT draws\n" +
			"it, one category above the other: .png, .svg or .html.",
		Example: "  memgauge snapshot categories snapshot.pickle\n" +
			"  memgauge snapshot categories snapshot.pickle --category 'attention=attn|sdpa' --category mlp=mlp\n" +
			"  memgauge snapshot categories snapshot.pickle --by metadata -o picture.svg\n" +
			"  memgauge snapshot categories snapshot.pickle --category fsdp=fsdp --moments 1000 --json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.output != "" && !cmd.Flags().Changed("moments") {
				o.moments = drawnMoments
			}
			return a.snapshotCategories(cmd.Context(), shared, o, args[0])
		},
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.StringVar(&o.by, "by", "use", "use, or metadata: a category for each text, numbers in it left out")
	f.StringArrayVar(&o.rules, "category", nil, "a category: `NAME=REGEX`; can be repeated")
	f.IntVar(&o.moments, "moments", o.moments,
		"cut the history into `N` stretches, for a picture into 500 if it is not given")
	f.StringVarP(&o.output, "output", "o", "", "draw into `OUTPUT`")
	return c
}

// categoriesDoc is the document of --json.
type categoriesDoc struct {
	SchemaVersion int                   `json:"schema_version"`
	File          string                `json:"file"`
	Devices       []anatomy.ClassLevels `json:"devices"`
	first         []int                 // the first event of each device
	from          []int64               // and its time in µs
}

// maxMoments bounds what --json may print: more than any picture has pixels.
const maxMoments = 100_000

// parse reads the flags.
func (o *categoriesOptions) parse() (rules []anatomy.Rule, err error) {
	switch {
	case len(o.rules) > anatomy.MaxRules:
		return nil, fmt.Errorf("--category: %d categories, at most %d", len(o.rules), anatomy.MaxRules)
	case o.by != "use" && o.by != "metadata":
		return nil, fmt.Errorf("--by %q: use or metadata", o.by)
	case o.output != "" && chartWriter(o.output) == nil:
		return nil, remedy.Add(fmt.Errorf("-o %s: unknown kind of file", o.output),
			"end the name in .png, .svg or .html")
	case o.output != "" && o.json:
		return nil, errors.New("--json is for standard output, -o draws")
	case o.moments < 1 || o.moments > maxMoments:
		return nil, fmt.Errorf("--moments: %d, want 1 to %d", o.moments, maxMoments)
	}
	for _, text := range o.rules {
		r, err := anatomy.ParseRule(text)
		if err != nil {
			return nil, fmt.Errorf("--category: %w", err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func (a *commands) snapshotCategories(ctx context.Context, s *snapshotOptions, o categoriesOptions,
	path string) error {
	rules, err := o.parse()
	if err != nil {
		return app.Usage(fmt.Errorf("snapshot categories: %w", err))
	}
	h, _, err := a.readHistory(ctx, s, path)
	if err != nil {
		return fmt.Errorf("snapshot categories: %s: %w", path, err)
	}
	defer h.Close()
	told := categoriesDoc{SchemaVersion: 1, File: path, Devices: []anatomy.ClassLevels{}}
	for _, d := range h.Told() {
		all := slices.Clone(rules)
		if o.by == "metadata" {
			all = append(all, h.MetadataRules(d, anatomy.MaxRules-len(all))...)
		}
		told.Devices = append(told.Devices, h.ClassLevels(d, all, o.moments))
		from := int64(0)
		if d.From < d.To {
			from = h.Time[d.From]
		}
		told.first, told.from = append(told.first, d.From), append(told.from, from)
	}
	if o.output != "" {
		return told.draw(o.output)
	}
	return a.tell(o.json, told, told.write)
}

func (t *categoriesDoc) write(w io.Writer) {
	fmt.Fprintf(w, "%s\n", t.File)
	for i, d := range t.Devices {
		fmt.Fprintf(w, "\ndevice %d\n", d.Device)
		table := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
		row := func(name string, l anatomy.ClassLevel) {
			fmt.Fprintf(table, "  %s\t%s\t", name, doc.Size(l.Live))
			for _, n := range l.Bytes {
				fmt.Fprintf(table, "%s\t", doc.Size(n))
			}
			fmt.Fprintln(table)
		}
		at := func(l anatomy.ClassLevel) string {
			switch {
			case l.Row < 0:
				return "before"
			case l.Time == 0:
				return fmt.Sprintf("event %d", l.Row)
			}
			return fmt.Sprintf("event %d, %s", l.Row, micros(l.Time-t.from[i]))
		}
		fmt.Fprintf(table, "  after\tlive\t%s\t\n", strings.Join(d.Names, "\t"))
		for _, l := range d.Levels {
			row(at(l), l)
		}
		row("peak, "+at(d.Peak), d.Peak)
		table.Flush()
		for k, name := range d.Names {
			fmt.Fprintf(w, "  most %s: %s, %s\n", name, doc.Size(d.Highest[k].Bytes[k]), at(d.Highest[k]))
		}
	}
}
