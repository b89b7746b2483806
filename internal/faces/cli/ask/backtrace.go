package ask

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// backtraceOptions are the flags of backtrace.
type backtraceOptions struct {
	all     bool
	locals  bool
	json    bool
	timeout string
}

func (a *commands) backtraceCommand() *cobra.Command {
	var o backtraceOptions
	c := &cobra.Command{
		Use:   "backtrace [TID]",
		Short: "Every thread's Python stack, with the executing line",
		Long: "Prints what each thread of the trainer is doing, innermost call first: the line that it executes, and what the kernel says\n" +
			"of it. It works while the main thread is blocked. When Python's lock (the GIL) can't be had within --timeout, it says so and\n" +
			"shows the kernel's view alone. TID is a thread's number; without one all threads are shown.",
		Example: "  memgauge backtrace\n" +
			"  memgauge 27891 backtrace --locals\n" +
			"  memgauge backtrace --all --json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.backtrace(cmd.Context(), o, args) },
	}
	f := c.Flags()
	f.BoolVar(&o.all, "all", false, "of every process of the session")
	f.BoolVar(&o.locals, "locals", false, "local variables too, as short texts; no code of the program runs for that")
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.StringVar(&o.timeout, "timeout", "2s", "wait for Python's lock at most for `DURATION`")
	return c
}

func (a *commands) backtrace(ctx context.Context, o backtraceOptions, args []string) error {
	timeout, err := units.ParseDuration(o.timeout)
	if err != nil || timeout <= 0 {
		return app.Usage(fmt.Errorf("backtrace: --timeout %q: not a duration such as 2s", o.timeout))
	}
	tid, err := threadArgument(args)
	if err != nil {
		return err
	}
	return app.Put(ctx, a.App, app.Question[[]api.Stacks]{Role: source.Processes, JSON: o.json,
		Ask: func(ctx context.Context, t ask.Target) ([]api.Stacks, error) {
			q := api.BacktraceRequest{Choice: t.Choice(), Thread: tid, Locals: o.locals,
				Timeout: time.Duration(timeout)}
			q.Choice.All = o.all
			return backtrace(ctx, t, q)
		},
		Text: writeBacktrace, Document: backtraceDocument, Beside: func(w io.Writer, taken []api.Stacks) {
			for _, p := range taken {
				if p.Error != nil && !o.json {
					plain.Fprintf(w, "memgauge: backtrace of %d: %v; this is what the kernel tells\n", p.PID, p.Error)
				}
			}
		}})
}

// backtrace fails only if there is nothing to show of any process.
func backtrace(ctx context.Context, t ask.Target, q api.BacktraceRequest) ([]api.Stacks, error) {
	session := t.Open()
	defer session.Close()
	r, err := session.Backtrace(ctx, q)
	if err != nil {
		return nil, err
	}
	some := slices.ContainsFunc(r.Processes, func(p api.Stacks) bool { return p.Error == nil || len(p.Threads) > 0 })
	if !some && len(r.Processes) > 0 {
		return nil, fmt.Errorf("backtrace: %w", r.Processes[0].Error.Unpack())
	}
	return r.Processes, nil
}

func threadArgument(args []string) (int, error) {
	if len(args) == 0 {
		return 0, nil
	}
	tid, err := strconv.ParseUint(args[0], 10, 31)
	if err != nil || tid == 0 {
		return 0, app.Usage(fmt.Errorf("backtrace: %q: not a thread's number", args[0]))
	}
	return int(tid), nil
}

func writeBacktrace(w io.Writer, taken []api.Stacks) error {
	for i, p := range taken {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := writeProcess(w, p); err != nil {
			return err
		}
	}
	return nil
}

func writeProcess(w io.Writer, p api.Stacks) error {
	head := fmt.Sprintf("process %d", p.PID)
	if p.Rank >= 0 {
		head += fmt.Sprintf(", rank %d", p.Rank)
	}
	if p.Argv != "" {
		head += ": " + p.Argv
	}
	fmt.Fprintln(w, plain.Line(head))
	var native []api.Thread
	for _, t := range p.Threads {
		if !t.Python {
			native = append(native, t)
			continue
		}
		plain.Fprintf(w, "\n%s\n", plain.Line(threadHead(t)))
		if err := writeFrames(w, &t); err != nil {
			return err
		}
	}
	if p.Left > 0 {
		plain.Fprintf(w, "\n… and %d more threads\n", p.Left)
	}
	return writeNative(w, native, p.Error != nil)
}

func threadHead(t api.Thread) string {
	name := t.Name
	if name == "" {
		name = "thread"
	}
	if t.TID != 0 {
		name += fmt.Sprintf(" (%d)", t.TID)
	}
	if kernel := t.Kernel; kernel != "" {
		name += ": " + kernel
	}
	return name
}

func writeFrames(w io.Writer, t *api.Thread) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, f := range t.Frames {
		if t.Cut > 0 && i == t.CutAt {
			plain.Fprintf(tab, "  …\t%d more calls\n", t.Cut)
		}
		plain.Fprintf(tab, "  %d\t%s\t%s:%d\n", t.Depth(i), plain.Line(f.Func), plain.Line(f.File), f.Line)
		for _, l := range f.Locals {
			plain.Fprintf(tab, "  \t  %s = %s\n", plain.Line(l.Name), plain.Line(l.Value))
		}
	}
	return tab.Flush()
}

// writeNative lists threads without Python frames one by one if there are no others; else it prints their number.
func writeNative(w io.Writer, threads []api.Thread, each bool) error {
	if len(threads) == 0 {
		return nil
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if each {
		for _, t := range threads {
			plain.Fprintf(tab, "  thread %d\t%s\t%s\n", t.TID, plain.Line(t.Comm), t.Kernel)
		}
		return tab.Flush()
	}
	kinds := map[string]int{}
	for _, t := range threads {
		kinds[t.Kernel]++
	}
	plain.Fprintf(tab, "\nand threads without Python:\n")
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		plain.Fprintf(tab, "  %d\t%s\n", kinds[k], k)
	}
	return tab.Flush()
}

// The JSON of backtrace is documented in docs/cli-json.md.
type backtraceJSON struct {
	SchemaVersion int                    `json:"schema_version"`
	Processes     []backtraceProcessJSON `json:"processes"`
}

type backtraceProcessJSON struct {
	PID     int          `json:"pid"`
	Rank    *int         `json:"rank"`
	Source  string       `json:"source"` // python, or kernel
	Error   *string      `json:"error"`  // why not python
	Threads []threadJSON `json:"threads"`
	Left    int          `json:"threads_left_out"`
}

type threadJSON struct {
	TID       *int        `json:"tid"`
	Name      *string     `json:"name"`
	Daemon    *bool       `json:"daemon"`
	Comm      *string     `json:"comm"`
	State     *string     `json:"state"`
	Wchan     *string     `json:"wchan"`
	Syscall   *string     `json:"syscall"`
	Frames    []frameJSON `json:"frames"`
	FramesCut int         `json:"frames_left_out"`
}

type frameJSON struct {
	Depth  int               `json:"depth"`
	Func   string            `json:"func"`
	File   string            `json:"file"`
	Line   int               `json:"lineno"`
	Locals map[string]string `json:"locals,omitempty"`
}

func backtraceDocument(taken []api.Stacks) any {
	doc := backtraceJSON{SchemaVersion: doc.JSONVersion, Processes: []backtraceProcessJSON{}}
	for _, p := range taken {
		j := backtraceProcessJSON{PID: p.PID, Source: "python", Threads: []threadJSON{}, Left: p.Left}
		if p.Rank >= 0 {
			j.Rank = &p.Rank
		}
		if p.Error != nil {
			text := p.Error.Message
			j.Source, j.Error = "kernel", &text
		}
		for _, t := range p.Threads {
			j.Threads = append(j.Threads, threadDocument(t))
		}
		doc.Processes = append(doc.Processes, j)
	}
	return doc
}

func threadDocument(t api.Thread) threadJSON {
	j := threadJSON{Frames: []frameJSON{}, Name: doc.Known(t.Name)}
	if t.TID != 0 {
		j.TID, j.Comm, j.State, j.Wchan, j.Syscall = &t.TID, doc.Known(t.Comm), doc.Known(t.State), doc.Known(t.Wchan),
			doc.Known(t.Syscall)
	}
	if !t.Python {
		return j
	}
	j.Daemon, j.FramesCut = &t.Daemon, t.Cut
	for i, f := range t.Frames {
		frame := frameJSON{Depth: t.Depth(i), Func: f.Func, File: f.File, Line: f.Line}
		for _, l := range f.Locals {
			if frame.Locals == nil {
				frame.Locals = map[string]string{}
			}
			frame.Locals[l.Name] = l.Value
		}
		j.Frames = append(j.Frames, frame)
	}
	return j
}
