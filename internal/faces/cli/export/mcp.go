package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

func (a *commands) mcpCommand() *cobra.Command {
	eval := false
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Answer an assistant's questions about sessions, by the Model Context Protocol",
		Long: "Serves the Model Context Protocol on standard input and output, for assistants that start it: " +
			"they list sessions, ask in SQL,\n" +
			"and read verdicts, bytes, holders and stacks. With an ENDPOINT they see that session alone. " +
			"Everything is read-only, unless\n" +
			"--allow-eval lets them run code in the live trainer. Answers are bounded and say what was cut. " +
			"docs/mcp.md has the tools, and\n" +
			"how assistants are set up.",
		Example: "  memgauge mcp\n" +
			"  memgauge 27891 mcp\n" +
			"  memgauge mcp --allow-eval",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.mcp(cmd.Context(), eval) },
	}
	c.Flags().BoolVar(&eval, "allow-eval", false,
		"let the assistant run Python code in the live trainer, with all that the trainer may do")
	return c
}

// mcp serves requests until its input ends, or Ctrl-C.
func (a *commands) mcp(ctx context.Context, eval bool) error {
	if a.Named() {
		t, err := a.Target(ctx)
		if err != nil { // else every answer would have this error
			return fmt.Errorf("mcp: %w", err)
		}
		if a.Many() { // what an assistant names is of this machine
			a.Far = &t
		}
	}
	in := a.OpenStdin(ctx)
	defer in.Close()
	err := a.mcpServer(eval).Run(ctx, answering{&mcp.IOTransport{Reader: in, Writer: stays{a.Stdout}}})
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("mcp: %w", err)
	}
	return nil
}

// stays is an output that must not be closed.
type stays struct{ io.Writer }

func (stays) Close() error { return nil }

const mcpInstructions = `memgauge records the memory of AI training jobs (PyTorch and others) and judges it. ` +
	`Begin with "sessions"; then "leak" says whether memory leaks, who holds it and which line keeps it; "where" ` +
	`lists all bytes; "tensors" who holds them now; "query" asks tables in SQL (DuckDB), which "tables" describes. ` +
	`Most tools take "session": a name, id, PID or directory; without one it is the only live session, ` +
	`else the newest finished one. ` +
	`Sizes are in bytes unless a unit is said.`

func (a *commands) mcpServer(eval bool) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "memgauge", Title: "memgauge", Version: app.Version},
		&mcp.ServerOptions{Instructions: mcpInstructions, Logger: slog.New(slog.DiscardHandler)})
	t := newTools(a.App, eval)
	reading := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	if !a.Named() {
		mcp.AddTool(s, &mcp.Tool{Name: "sessions", Annotations: reading,
			Description: "List sessions: name, pids, ranks, command, when started, state, rows."}, t.sessions)
	}
	mcp.AddTool(s, &mcp.Tool{Name: "tables", Annotations: reading,
		Description: "List the tables of a session, or describe every column of one."}, t.tables)
	mcp.AddTool(s, &mcp.Tool{Name: "query", Annotations: reading,
		Description: "Run one reading SQL statement (DuckDB). Answers one JSON object a row."}, t.query)
	mcp.AddTool(s, &mcp.Tool{Name: "leak", Annotations: reading,
		Description: "The verdict on each memory: whether it leaks, since when, how fast, who holds it, which " +
			"line, what to do."}, t.leak)
	mcp.AddTool(s, &mcp.Tool{Name: "fix", Annotations: reading,
		Description: "The change of the program's code that ends each leak, as a diff, where one is known; with " +
			"\"prompt\" the evidence and the code around it. Writes nothing."}, t.fix)
	mcp.AddTool(s, &mcp.Tool{Name: "where", Annotations: reading,
		Description: "Every byte of the job by process and class, host and devices."}, t.where)
	mcp.AddTool(s, &mcp.Tool{Name: "tensors", Annotations: reading,
		Description: "Who holds the memory: live tensors and growing containers by holder and line. Takes a " +
			"census of a live " +
			"trainer within its budget."}, t.tensors)
	mcp.AddTool(s, &mcp.Tool{Name: "backtrace", Annotations: reading,
		Description: "What every thread of a live trainer is doing: Python stack with the executing line."},
		t.backtrace)
	mcp.AddTool(s, &mcp.Tool{Name: "report", Annotations: reading,
		Description: "All about a session as one JSON document: state, verdicts, devices, processes, events. " +
			"Long lists are cut."},
		t.report)
	mcp.AddTool(s, &mcp.Tool{Name: "check", Annotations: reading,
		Description: "Find patterns that leak memory in Python code below the working directory: line, why, and " +
			"what to write instead. With a session, what was measured at each line stands beside it."}, t.check)
	if eval {
		mcp.AddTool(s, &mcp.Tool{Name: "eval", Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)},
			Description: "Run Python code in the live trainer's __main__. What it changes is changed."}, t.eval)
	}
	return s
}

// tools handles one request at a time: requests for a finished session would wait for its lock anyway.
type tools struct {
	*app.App
	turn   chan struct{}
	rights api.Rights // of every session that a tool opens
}

func newTools(a *app.App, eval bool) *tools {
	t := &tools{App: a, turn: make(chan struct{}, 1), rights: api.Reading}
	if eval {
		t.rights |= api.MayEval
	}
	return t
}

// command runs a command line with its own streams, and returns what it printed.
func (t *tools) command(ctx context.Context, session string, args ...string) (*mcp.CallToolResult, any, error) {
	var out, errs cut
	out.most, errs.most = maxAnswer, maxNotes
	code, err := t.run(ctx, session, &out, &errs, args...)
	if err != nil {
		return nil, nil, err
	}
	return answer(out.text("shorten the question: fewer rows, one process, a query"), errs.text(""),
		code != 0 && code != app.ExitFindings), nil, nil
}

func (t *tools) run(ctx context.Context, session string, out, errs io.Writer, args ...string) (code int, err error) {
	sub, done, err := t.about(ctx, session)
	if err != nil {
		return 0, err
	}
	defer done()
	sub.Stdin, sub.Stdout, sub.Stderr = eof{}, out, errs
	root := sub.RootCommand() // it sets the endpoint to its default, so the flags say it
	if t.SessionDir != "" && args[0] != "list" {
		args = append([]string{args[0], "--session", t.SessionDir}, args[1:]...)
	} else if session = orElse(session, t.Said()); session != "" {
		args = append([]string{"--target=" + session}, args...) // joined: it may look like a flag
	}
	root.SetArgs(args)
	return sub.Report(root.ExecuteContext(ctx)), nil
}

// about waits for its turn, and makes an App for a request about a session.
func (t *tools) about(ctx context.Context, session string) (sub *app.App, done func(), err error) {
	if session != "" && session != t.Said() && t.Named() {
		return nil, nil, errors.New("memgauge mcp was started for one session: leave out \"session\"")
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	sub = t.Again()
	sub.Rights, sub.Apart = t.rights, true
	sub.Far, sub.SessionDir = t.Far, t.SessionDir
	sub.Say(orElse(session, t.Said()))
	return sub, func() { <-t.turn }, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// eof is an empty input, since the process's own input belongs to the assistant.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// answer appends standard error to the text, such as a note or an error with its hint.
func answer(text, notes string, failed bool) *mcp.CallToolResult {
	r := &mcp.CallToolResult{IsError: failed}
	for _, s := range []string{text, notes} {
		if s != "" {
			r.Content = append(r.Content, &mcp.TextContent{Text: plain.Text(s)})
		}
	}
	if r.Content == nil {
		r.Content = []mcp.Content{&mcp.TextContent{Text: "(nothing)"}}
	}
	return r
}
