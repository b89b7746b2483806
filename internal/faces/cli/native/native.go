package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type listOptions struct {
	from, to string
	top      int
	json     bool
}

func (a *commands) nativeCommand() *cobra.Command {
	o := listOptions{from: "settled", to: "now"}
	c := &cobra.Command{
		Use:   "native",
		Short: "What native code holds, by line: numpy, OpenCV, an extension of one's own",
		Long: "Lists the native memory (malloc, mmap) of a session that was started with run " +
			"--native, or attached to with attach --native, by\n" +
			"the line of the program whose call allocated it: what is held now, and what of it was gained " +
			"since a quarter of the recorded\n" +
			"time. Sizes are estimates from samples, with half the width of their 95 % interval. " +
			"docs/native.md says how they come about, and\n" +
			"what is not seen.",
		Example: "  memgauge run --native -- python train.py\n" +
			"  memgauge attach --native 27891\n" +
			"  memgauge native\n" +
			"  memgauge native flame --at growth -o leak.html\n" +
			"  memgauge native diff --from 60s --to now",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), "native", o) },
	}
	o.flags(c)
	c.AddCommand(a.flameCommand(), a.diffCommand())
	return c
}

func (a *commands) diffCommand() *cobra.Command {
	var o listOptions
	c := &cobra.Command{
		Use:   "diff",
		Short: "What native code has gained between two moments, by line",
		Long: "Compares what native code held at two moments of a session that was started with run " +
			"--native, by the line of the program whose\n" +
			"call allocated it. A moment is start (a process's first reading), settled (a quarter of " +
			"the recorded time), now, peak, or a time\n" +
			"after the first reading. Lines that have grown beyond their noise come first, by how much " +
			"beyond; then the others, the largest change\n" +
			"first. Noise is what samples miss of both moments, and how far the readings between " +
			"them lie from a straight line. A change within\n" +
			"its ± may be none.",
		Example: "  memgauge native diff\n" +
			"  memgauge native diff --from 2m --to 10m --top 5\n" +
			"  memgauge native diff --from start --to peak --json",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), "native diff", o) },
	}
	o.flags(c)
	c.Flags().StringVar(&o.from, "from", "settled", "the first `MOMENT`: start, settled, peak, now, or such as 90s")
	c.Flags().StringVar(&o.to, "to", "now", "the second `MOMENT`")
	for _, flag := range []string{"from", "to"} {
		app.Offer(c, flag, "start", "settled", "peak", "now")
	}
	return c
}

func (o *listOptions) flags(c *cobra.Command) {
	c.Flags().IntVar(&o.top, "top", 20, "show at most `N` lines; 0 for all")
	c.Flags().BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
}

// change is what one stack, or all of a line, held at two moments.
type change struct {
	Stack   int64   `json:"-"`
	Site    string  `json:"site"`
	Called  string  `json:"called"`
	Before  int64   `json:"before"`
	Bytes   int64   `json:"bytes"`
	Grown   int64   `json:"grown"`
	Half    float64 `json:"-"`
	HalfWas float64 `json:"-"`             // of Before
	HalfOf  int64   `json:"half_interval"` // of Bytes
	Noise   int64   `json:"grown_noise"`   // half of the 95 % interval of Grown
	Count   int64   `json:"count"`
	Samples int64   `json:"samples"`
}

// between compares two moments by stack.
func (s session) between(ctx context.Context, from, to string) ([]change, error) {
	before, err := s.at(ctx, from)
	if err != nil {
		return nil, err
	}
	after, err := s.at(ctx, to)
	if err != nil {
		return nil, err
	}
	by := map[int64]*change{}
	of := func(h held) *change {
		c := by[h.Stack]
		if c == nil {
			c = &change{Stack: h.Stack, Site: h.Site, Called: h.Called}
			by[h.Stack] = c
		}
		return c
	}
	for _, h := range before {
		c := of(h)
		c.Before, c.HalfWas = h.Bytes, h.Half
	}
	for _, h := range after {
		c := of(h)
		c.Bytes, c.Half, c.Count, c.Samples = h.Bytes, h.Half, h.Count, h.Samples
	}
	var list []change
	for _, c := range by {
		c.Grown = c.Bytes - c.Before
		list = append(list, *c)
	}
	return list, nil
}

// line is a line of the program with what it calls.
type line struct{ site, called string }

// smaller stands for the stacks that have no row of their own.
const smaller = questions.NativeSmaller

// byLine adds up the stacks of each line, and takes what its readings are off a straight line for noise, too.
func byLine(stacks []change, off map[line]float64) []change {
	sums := map[line]*change{}
	for _, c := range stacks {
		key := line{c.Site, c.Called}
		if c.Stack == 0 {
			key.site = smaller
		}
		sum := sums[key]
		if sum == nil {
			sum = &change{Site: key.site, Called: key.called}
			sums[key] = sum
		}
		sum.Before, sum.Bytes, sum.Grown = sum.Before+c.Before, sum.Bytes+c.Bytes, sum.Grown+c.Grown
		sum.Count, sum.Samples, sum.Half = sum.Count+c.Count, sum.Samples+c.Samples, math.Hypot(sum.Half, c.Half)
		sum.HalfWas = math.Hypot(sum.HalfWas, c.HalfWas)
	}
	var list []change
	for key, c := range sums {
		c.HalfOf = int64(c.Half)
		c.Noise = int64(math.Hypot(math.Hypot(c.Half, c.HalfWas), two95*math.Sqrt2*off[key]))
		if c.Before != 0 || c.Bytes != 0 {
			list = append(list, *c)
		}
	}
	order.By(list, func(a, b change) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Called, b.Called))
	})
	return list
}

// two95 are the standard deviations of half a 95 % interval; a growth counts as such beyond three.
const two95, beyondAll = 1.96, 3

// byGrowth puts what has grown beyond its noise first, by how much; then the others, the largest change first. A site
// whose memory comes and goes may hold much more at one moment than at another, and a leak shows as less.
func byGrowth(list []change) {
	beyond := func(c change) float64 {
		return max(0, float64(c.Grown)-beyondAll/two95*float64(c.Noise))
	}
	order.Stable(list, func(a, b change) int {
		return cmp.Or(cmp.Compare(beyond(b), beyond(a)), cmp.Compare(absolute(b.Grown), absolute(a.Grown)))
	})
}

func absolute(n int64) int64 { return max(n, -n) }

// before is what was allocated before samples began.
type before = questions.NativeBefore

// document is that of --json.
type document struct {
	SchemaVersion int      `json:"schema_version"`
	From          string   `json:"from"`
	To            string   `json:"to"`
	Lines         []change `json:"lines"`
	Unknown       []before `json:"unknown"`
}

func (a *commands) list(ctx context.Context, command string, o listOptions) error {
	for flag, m := range map[string]string{"--from": o.from, "--to": o.to} {
		if _, err := moment(m); err != nil {
			return app.Usage(fmt.Errorf("%s: %s: %w", command, flag, err))
		}
	}
	if o.top < 0 {
		return app.Usage(errors.New(command + ": --top wants a positive number"))
	}
	s, err := a.connect(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	defer s.Close()
	stacks, err := s.between(ctx, o.from, o.to)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	off, err := s.off(ctx, o.from, o.to)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	unknown, err := ask(ctx, s, questions.NativeUnknown)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	lines := byLine(stacks, off)
	if command != "native" {
		byGrowth(lines)
	}
	if o.top > 0 && len(lines) > o.top {
		lines = lines[:o.top]
	}
	out := &sink.Spool{To: a.Answer(o.json)}
	defer out.Discard()
	if o.json {
		err = doc.WriteJSON(out, document{SchemaVersion: 1, From: o.from, To: o.to, Lines: lines,
			Unknown: append([]before{}, unknown...)})
	} else {
		if err = show(out, term.TerminalWidth(a.Stdout), lines); err == nil {
			err = showUnknown(out, unknown)
		}
	}
	if err == nil {
		err = out.Commit()
	}
	return err
}

// showUnknown says what is in no line.
func showUnknown(out io.Writer, unknown []before) (err error) {
	for _, u := range unknown {
		_, werr := plain.Fprintf(out, "%s\n", u)
		err = errors.Join(err, werr)
	}
	return err
}

// show prints the lines as a table, for a terminal of that width.
func show(out io.Writer, width int, lines []change) error {
	l := &doc.Listing{Head: []model.Column{doc.Text("held"), doc.Text("±"), doc.Text("change"), doc.Text("± of it"),
		doc.Number("blocks"), doc.Number("samples"), doc.Text("site"), doc.Text("called")}}
	for _, c := range lines {
		l.Rows = append(l.Rows, []any{doc.Size(c.Bytes), doc.Size(c.HalfOf), doc.SignedSize(c.Grown),
			doc.Size(c.Noise), c.Count, c.Samples, c.Site, c.Called})
	}
	return render.Write(out, l, render.Table, render.Options{Width: width, NoRows: true,
		Spare: []string{"samples", "blocks"}, Whole: doc.WholeTables})
}
