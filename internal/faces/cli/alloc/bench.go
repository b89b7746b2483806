package alloc

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/judge/workload"
)

type allocBenchOptions struct {
	policies []string
	pairs    int
	rounds   int
	json     bool
}

func (a *commands) allocBenchCommand() *cobra.Command {
	var o allocBenchOptions
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure memgauge's allocator on this machine",
		Long: "Times the allocator's own work, without a device: pairs of an allocation and a free with exact statistics, with the event\n" +
			"ring, on two threads; RMM's random_allocations; a snapshot. The unit is processor time of the thread; median and best are\n" +
			"those of several rounds.",
		Example: "  memgauge alloc bench\n  memgauge alloc bench --policy torch,packed,vmm --rounds 11",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.allocBench(cmd.Context(), o) },
	}
	f := c.Flags()
	f.StringSliceVar(&o.policies, "policy", []string{"torch"},
		"`POLICIES`, separated by commas: torch, packed, vmm, direct")
	f.IntVar(&o.pairs, "pairs", 200_000, "pairs in a round (`N`)")
	f.IntVar(&o.rounds, "rounds", 7, "rounds of each measurement (`N`)")
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	return c
}

func (o allocBenchOptions) check() error {
	for _, p := range o.policies {
		if !slices.Contains(alloc.Policies, alloc.Policy(p)) {
			return fmt.Errorf("alloc bench: --policy %q: not one of %s", p, listed(alloc.Policies))
		}
	}
	if o.pairs < 1 || o.pairs > 1e8 || o.rounds < 1 || o.rounds > 1000 {
		return fmt.Errorf("alloc bench: --pairs from 1 to 100,000,000, --rounds from 1 to 1,000")
	}
	return nil
}

func (a *commands) allocBench(_ context.Context, o allocBenchOptions) error {
	if err := o.check(); err != nil {
		return app.Usage(err)
	}
	figures, err := workload.Measure(workload.Options{Policies: o.policies, Pairs: o.pairs, Rounds: o.rounds})
	if err != nil {
		return fmt.Errorf("alloc bench: %w", err)
	}
	out := a.Answer(o.json)
	if o.json {
		return writeBenchJSON(out, figures)
	}
	l := &doc.Listing{Head: []model.Column{doc.Text("what"), doc.Text("policy"), doc.Number("median"),
		doc.Number("best")}}
	for _, f := range figures {
		unit := " " + f.Unit
		if f.Unit == "ratio" {
			unit = " times"
		}
		l.Rows = append(l.Rows, []any{f.What, f.Setting, three(f.Value) + unit, three(f.Best) + unit})
	}
	return render.Write(out, l, render.Table, render.Options{Width: term.TerminalWidth(a.Stdout), NoRows: true,
		Whole: doc.WholeTables})
}

// three shows a value with three significant digits.
func three(v float64) string {
	digits := 2
	switch {
	case v >= 100:
		digits = 0
	case v >= 10:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func writeBenchJSON(w io.Writer, figures []workload.Figure) error {
	type figureJSON struct {
		What   string  `json:"what"`
		Policy string  `json:"policy"`
		Median float64 `json:"median"`
		Best   float64 `json:"best"`
		Unit   string  `json:"unit"`
	}
	out := struct {
		SchemaVersion int          `json:"schema_version"`
		Figures       []figureJSON `json:"figures"`
	}{SchemaVersion: doc.JSONVersion}
	for _, f := range figures {
		out.Figures = append(out.Figures, figureJSON{f.What, f.Setting, f.Value, f.Best, f.Unit})
	}
	return doc.WriteJSON(w, out)
}
