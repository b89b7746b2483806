package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// QueryOptions are the flags of query, here and in snapshot query.
type QueryOptions struct {
	format  string
	Output  string
	timeout units.Duration
	Lake    LakeOptions // of query alone
	ofLake  string      // a flag that was given, and is about a lake
}

func (a *commands) queryCommand() *cobra.Command {
	var o QueryOptions
	c := &cobra.Command{
		Use:   "query SQL",
		Short: "Ask a session in SQL, live or finished",
		Long: "Runs one reading statement (SELECT, WITH, SHOW, DESCRIBE, EXPLAIN, SUMMARIZE) over the session's tables, as they are at this\n" +
			"moment; - reads it from standard input. memgauge tables lists the tables. NULL is NULL and 64-bit integers are exact. A table\n" +
			"fits the terminal; in a pipe or a file nothing is cut, rounded or wrapped. When the query fails, nothing is printed or written.",
		Example: "  memgauge query \"SELECT step, max(allocated) AS peak_mb FROM python.torch_trace GROUP BY step ORDER BY step\"\n" +
			"  memgauge 27891 query -f csv --timeout 10s - < growth.sql\n" +
			"  memgauge query -o steps.parquet \"SELECT * FROM python.steps\"\n" +
			"  memgauge lake=/data/lake query --job llama --since 2h \"SELECT max(rss) FROM python.steps\"",
		Args: oneStatement,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ofLake = o.Lake.Given(cmd.Flags())
			if o.ofLake != "" && a.Lake() == "" && !a.Many() {
				return noLake(o.ofLake, "query")
			}
			return a.query(cmd.Context(), o, args[0])
		},
	}
	o.AddFlags(c)
	o.Lake.AddFlags(c.Flags())
	return c
}

// oneStatement takes a statement, which a shell cuts at its blanks where nobody has quoted it.
func oneStatement(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return remedy.Add(fmt.Errorf("want one statement, there are %d arguments", len(args)),
			`put the statement in quotes: memgauge query "SELECT …"`)
	}
	return cobra.ExactArgs(1)(c, args)
}

// AddFlags adds the flags to a command.
func (o *QueryOptions) AddFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&o.format, "format", "f", "",
		"`FORMAT`: table, json, ndjson, csv or parquet (default table, or what the name of -o FILE ends in)")
	f.StringVarP(&o.Output, "output", "o", "",
		"write to `FILE`, which appears or changes only when the query has succeeded")
	f.Var(&o.timeout, "timeout", "give up after a `DURATION` such as 10s, with exit code 124 (default never)")
	f.Lookup("timeout").DefValue = "0" // what pflag takes for no default worth printing
	app.Offer(c, "format", formatNames()...)
}

func formatNames() (names []string) {
	for _, f := range render.Formats {
		names = append(names, string(f))
	}
	return names
}

// query checks all arguments before it connects to the session.
func (a *commands) query(ctx context.Context, o QueryOptions, sql string) error {
	q, err := QueryRequest(ctx, a.App, o, sql)
	if err != nil {
		return err
	}
	q.Note = func(text string) { plain.Fprintf(a.Stderr, "memgauge: %s\n", text) }
	ctx, cancel := o.Limit(ctx)
	defer cancel()
	out, err := QuerySink(a.App, o.Output)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	defer out.Discard()
	from, err := a.from(ctx, o, q)
	if err != nil {
		return WhyCut(ctx, err)
	}
	defer from.Close()
	err = RunQuery(ctx, from, q, out)
	if t, ok := from.(interface{ told(err error) }); ok {
		t.told(err)
	}
	return err
}

// querier is who answers a statement.
type querier interface {
	api.Querier
	io.Closer
}

func (a *commands) from(ctx context.Context, o QueryOptions, q api.QueryRequest) (querier, error) {
	switch where := a.Lake(); {
	case where != "":
		return o.Lake.from(ctx, where, q.SQL)
	case a.Many():
		return a.fromHub(ctx, o, q)
	}
	return a.Connect(ctx)
}

// QueryRequest makes the request of the options and the statement.
func QueryRequest(ctx context.Context, a *app.App, o QueryOptions, sql string) (api.QueryRequest, error) {
	width := 0
	if o.Output == "" {
		width = term.TerminalWidth(a.Stdout)
	}
	format, err := o.formatFor(width > 0)
	if err != nil {
		return api.QueryRequest{}, err
	}
	if sql, err = statement(ctx, a, sql); err != nil {
		return api.QueryRequest{}, err
	}
	timeout := time.Duration(o.timeout)
	return api.QueryRequest{SQL: sql, Format: string(format), Width: width, Plain: colourless(), Timeout: timeout}, nil
}

// colourless reports whether to send no colours: NO_COLOR is set (https://no-color.org), or the terminal has none.
func colourless() bool { return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" }

// RunQuery runs a query and commits its result to out. On an error nothing is printed or written.
func RunQuery(ctx context.Context, from api.Querier, q api.QueryRequest, out sink.Sink) error {
	if err := from.Query(ctx, q, out); err != nil {
		return WhyCut(ctx, err)
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// QuerySink returns the sink of a result: the file at path, or standard output for "".
func QuerySink(a *app.App, path string) (sink.Sink, error) {
	if path == "" {
		return tellGrowth(a, &sink.Spool{To: a.Stdout}, ""), nil
	}
	out, err := sink.Create(path)
	if err != nil {
		return nil, err
	}
	return tellGrowth(a, out, path), nil
}

// formatFor returns the format: -f, else the file's extension, else table.
func (o QueryOptions) formatFor(terminal bool) (render.Format, error) {
	format, err := render.ParseFormat(o.format)
	if err != nil {
		return "", app.Usage(fmt.Errorf("query: %w", err))
	}
	if ending := filepath.Ext(o.Output); o.format == "" && ending != "" {
		known := false
		if format, known = render.FormatOf(o.Output); !known {
			return "", app.Usage(remedy.Add(fmt.Errorf("query: no format has the ending %s", ending),
				"say the format with -f, or end the name in .txt, .json, .ndjson, .csv or .parquet"))
		}
	}
	if format == render.Parquet && terminal {
		return "", app.Usage(remedy.Add(errors.New("query: parquet is not text for a terminal"), "add -o FILE.parquet"))
	}
	return format, nil
}

// Limit bounds the time of everything that the query does, including the connection.
func (o QueryOptions) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, time.Duration(o.timeout),
		fmt.Errorf("query: %w of %s", api.ErrTimeout, o.timeout))
}

// WhyCut wraps an error with the operation's name. If ctx has ended, its cause replaces the error that followed from
// it.
func WhyCut(ctx context.Context, err error) error {
	switch why := context.Cause(ctx); {
	case errors.Is(why, api.ErrTimeout):
		return why
	case why != nil:
		return fmt.Errorf("query: %w", api.ErrCanceled)
	}
	if strings.HasPrefix(err.Error(), "query: ") {
		return err
	}
	return fmt.Errorf("query: %w", err)
}

// maxStatement is more than a session accepts (4 MiB), so that a longer statement gets the session's own error.
const maxStatement = 5 << 20

// statement returns the SQL: the argument itself, or standard input for "-".
func statement(ctx context.Context, a *app.App, sql string) (string, error) {
	if sql == "-" {
		b, err := io.ReadAll(io.LimitReader(a.OpenStdin(ctx), maxStatement))
		if err != nil {
			return "", fmt.Errorf("query: read the statement: %w", err)
		}
		sql = string(b)
	}
	if strings.TrimSpace(sql) == "" {
		return "", app.Usage(remedy.Add(errors.New("query: the statement is empty"),
			`try memgauge query "SHOW ALL TABLES"`))
	}
	return sql, nil
}
