package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
)

type tensorsOptions struct {
	app.Which
	last    bool
	deep    bool
	top     int
	json    bool
	timeout units.Duration
}

func (a *commands) tensorsCommand() *cobra.Command {
	o := tensorsOptions{timeout: units.Duration(30 * time.Second)}
	c := &cobra.Command{
		Use:   "tensors",
		Short: "Who holds the memory: live tensors by holder, age and line",
		Long: "Takes a census of a live trainer and prints what holds its memory: tensors grouped by holder, with the line that keeps them, and\n" +
			"what has grown since the census before (containers, graphs, cycles, tracebacks, hooks). Of a finished session the last census is\n" +
			"shown. The census runs in slices of a few milliseconds within the session's budget, and runs no code of the program.\n" +
			"All censuses are in python.tensors and python.objects; docs/census.md says what they can see.",
		Example: "  memgauge tensors\n" +
			"  memgauge 27891 tensors --all --top 5\n" +
			"  memgauge tensors --last --json",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.tensors(cmd.Context(), o) },
	}
	f := c.Flags()
	f.BoolVar(&o.All, "all", false, "of every process of the session, DataLoader workers too")
	f.IntVar(&o.Rank, "rank", -1, "of the trainer of rank `N`")
	f.IntVar(&o.Pid, "pid", 0, "of the process `P`")
	f.BoolVar(&o.last, "last", false, "show the last census and take none")
	f.BoolVar(&o.deep, "deep", false,
		"ask the garbage collector for all objects too: finds what nothing leads to, stops the trainer for up to 0.1 s")
	f.IntVar(&o.top, "top", 20, "show at most `N` rows of each table; 0 for all")
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.Var(&o.timeout, "timeout", "wait for the census at most for `DURATION`")
	c.MarkFlagsMutuallyExclusive("all", "rank", "pid")
	return c
}

func (a *commands) tensors(ctx context.Context, o tensorsOptions) error {
	if o.top < 0 || o.timeout <= 0 {
		return app.Usage(errors.New("tensors: --timeout wants a positive duration"))
	}
	if o.last && o.deep {
		return app.Usage(errors.New("tensors: --last shows a census that was taken, --deep wants a new one"))
	}
	if _, err := a.Members(ctx); err != nil {
		return fmt.Errorf("tensors: %w", err)
	}
	return app.Put(ctx, a.App, app.Question[censuses]{Role: source.Processes, JSON: o.json,
		Ask: func(ctx context.Context, t ask.Target) (censuses, error) {
			c, err := o.ask(ctx, t)
			if err != nil {
				return c, fmt.Errorf("tensors: %w", err)
			}
			return c, nil
		},
		Text:     func(w io.Writer, c censuses) error { return c.write(w, o.top, term.TerminalWidth(a.Stdout)) },
		Document: func(c censuses) any { return censusDocument{doc.JSONVersion, c.list} },
		Beside: func(w io.Writer, c censuses) {
			for _, why := range c.failed {
				plain.Fprintf(w, "memgauge: tensors: %s\n", why)
			}
		}})
}

// censuses are those of a session's processes.
type censuses struct {
	list   []census
	failed []string // why some could not be taken; the one before is in the list
	cwd    string   // of the job
}

func (o tensorsOptions) ask(ctx context.Context, t ask.Target) (c censuses, err error) {
	session, err := t.Connect(ctx)
	if err != nil {
		return c, err
	}
	defer session.Close()
	pids, failed, err := o.takeCensus(ctx, session, t)
	if err != nil {
		return c, err
	}
	list, err := lastCensuses(ctx, session, pids)
	return censuses{list, failed, t.About().Cwd}, err
}

// takeCensus takes a census of live processes. It returns the processes whose last census is to be shown, none for all,
// and why a census failed.
func (o tensorsOptions) takeCensus(ctx context.Context, s api.Session, t ask.Target) (pids []int, failed []string,
	err error) {
	processes, err := s.Processes(ctx, api.ProcessesRequest{})
	if err != nil {
		return nil, nil, err
	}
	live := slices.ContainsFunc(processes, func(p api.Process) bool { return p.Alive && p.Agent })
	if !live || o.last {
		if o.Pid != 0 {
			return []int{o.Pid}, nil, nil
		}
		return nil, nil, nil
	}
	chosen, err := api.Choose(processes, o.Choice(t), false)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range chosen {
		pids = append(pids, p.PID)
	}
	r, err := s.Census(ctx, api.CensusRequest{PIDs: pids, Deep: o.deep, Timeout: time.Duration(o.timeout)})
	if err != nil {
		return nil, nil, err
	}
	for _, c := range r.Censuses {
		if c.Error != nil {
			failed = append(failed, c.Error.Message)
		}
	}
	return pids, failed, ctx.Err()
}

func (c censuses) write(w io.Writer, top, width int) error {
	for i, one := range c.list {
		if err := one.write(w, top, width, c.cwd, i > 0); err != nil {
			return err
		}
	}
	return nil
}

// census is one census as it is shown and as --json gives it.
type census struct {
	questions.Counted
	Ago     float64                 `json:"-"`
	Tensors []questions.TensorGroup `json:"tensors"`
	Objects []questions.ObjectGroup `json:"objects"`
}

type censusDocument struct {
	SchemaVersion int      `json:"schema_version"`
	Censuses      []census `json:"censuses"`
}

// lastCensuses reads the census that counts (questions.NewestCensuses) of each process, or of certain ones.
func lastCensuses(ctx context.Context, from api.Querier, pids []int) ([]census, error) {
	counted, err := api.Ask(ctx, from, questions.Censuses(pids...))
	if err != nil {
		return nil, err
	}
	if len(counted) == 0 {
		return nil, remedy.Add(errors.New("no census was taken in the session"),
			"memgauge tensors takes one while the trainer lives")
	}
	list := make([]census, len(counted))
	for i := range list {
		c := &list[i]
		c.Counted = counted[i]
		if c.Tensors, err = api.Ask(ctx, from, questions.TensorGroups(c.PID, c.ID)); err != nil {
			return nil, err
		}
		if c.Objects, err = api.Ask(ctx, from, questions.ObjectGroups(c.PID, c.ID)); err != nil {
			return nil, err
		}
		if ts, err := time.Parse(time.RFC3339Nano, c.Time); err == nil {
			c.Ago = time.Since(ts).Seconds()
		}
	}
	return list, nil
}

// grows selects the evidence for the text output: what grows. The tables have the rest.
func (c *census) grows() (out []questions.ObjectGroup) {
	for _, o := range c.Objects {
		switch {
		case o.Evidence == "cycle" || o.Evidence == "extension" || o.Evidence == "traceback":
			out = append(out, o)
		case o.Evidence != "type" && o.Evidence != "native" && o.Delta != nil && *o.Delta > 0:
			out = append(out, o)
		}
	}
	return out
}

func (c *census) write(w io.Writer, top, width int, cwd string, gap bool) error {
	head := fmt.Sprintf("process %d", c.PID)
	if c.Rank != nil {
		head += fmt.Sprintf(", rank %d", *c.Rank)
	}
	head += fmt.Sprintf(": census %d", c.ID)
	if c.Step != nil {
		head += fmt.Sprintf(" after step %s", units.Count(*c.Step))
	}
	head += fmt.Sprintf(", %s ago",
		units.Duration(time.Duration(c.Ago*float64(time.Second)).Round(100*time.Millisecond)))
	if gap {
		head = "\n" + head
	}
	if c.Note != "" {
		head += "\nnote: " + c.Note
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	if err := writeTensorGroups(w, c.Tensors, top, width, cwd); err != nil {
		return err
	}
	grows := c.grows()
	if len(grows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\nsince the census before:"); err != nil {
		return err
	}
	return writeObjectGroups(w, grows, top, width, cwd)
}

func writeTensorGroups(w io.Writer, groups []questions.TensorGroup, top, width int, cwd string) error {
	l := &doc.Listing{Head: []model.Column{doc.Number("bytes"), doc.Number("count"), doc.Number("new"),
		doc.Number("since step"),
		doc.Text("holder"), doc.Text("site"), doc.Text("shape"),
		doc.Text("dtype"), doc.Text("device"), doc.Text("role")}}
	for _, g := range first(groups, top) {
		l.Rows = append(l.Rows, []any{units.Bytes(g.Bytes).String(), about(g.Count, g.Estimated), optional(g.Fresh),
			optional(g.OldestStep), said(g.Holder),
			relative(said(g.Site), cwd), g.Shape, g.Dtype, g.Device, g.Role})
	}
	return render.Write(w, l, render.Table, render.Options{Width: width, NoRows: true,
		Spare: []string{"role", "dtype", "device", "shape"}, Whole: doc.WholeTables})
}

func writeObjectGroups(w io.Writer, groups []questions.ObjectGroup, top, width int, cwd string) error {
	l := &doc.Listing{Head: []model.Column{doc.Text("what"), doc.Number("length"), doc.Number("growth"),
		doc.Number("bytes"),
		doc.Text("holder"), doc.Text("site"), doc.Text("type"), doc.Text("detail")}}
	for _, g := range first(groups, top) {
		length := g.Count
		if g.Length != nil {
			length = *g.Length
		}
		size := ""
		if g.Bytes != nil {
			size = units.Bytes(*g.Bytes).String()
		}
		l.Rows = append(l.Rows, []any{g.Evidence, about(length, g.Estimated), signed(g.Delta), size, said(g.Holder),
			relative(said(g.Site), cwd), g.Type, g.Detail})
	}
	return render.Write(w, l, render.Table, render.Options{Width: width, NoRows: true,
		Spare: []string{"detail", "type"}, Whole: doc.WholeTables})
}

func first[T any](rows []T, top int) []T {
	if top == 0 {
		return rows
	}
	return rows[:min(top, len(rows))]
}

// about marks figures that are estimated from a sample.
func about(n int64, estimated bool) string {
	if estimated {
		return "~" + units.Count(n)
	}
	return units.Count(n)
}

func optional(n *int64) string {
	if n == nil {
		return ""
	}
	return units.Count(*n)
}

func signed(n *int64) string {
	if n == nil || *n == 0 {
		return ""
	}
	if *n < 0 {
		return "-" + units.Count(-*n)
	}
	return "+" + units.Count(*n)
}

func said(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// relative shortens a file's path by the directory that the job was started in.
func relative(site, cwd string) string {
	if cwd == "" || slices.Contains([]string{"/", "."}, cwd) {
		return site
	}
	return strings.TrimPrefix(site, strings.TrimSuffix(cwd, "/")+"/")
}
