package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// about has the input that most tools share.
type about struct {
	Session string `json:"session,omitempty" jsonschema:"name, id, PID or directory; default: the only live session"`
}

type sessionsInput struct {
	LiveOnly bool `json:"live_only,omitempty" jsonschema:"leave out finished sessions"`
}

func (t *tools) sessions(ctx context.Context, _ *mcp.CallToolRequest, in sessionsInput) (*mcp.CallToolResult, any,
	error) {
	if in.LiveOnly {
		return t.command(ctx, "", "list")
	}
	return t.command(ctx, "", "list", "-a")
}

type tablesInput struct {
	about
	Table string `json:"table,omitempty" jsonschema:"describe the columns of this one, such as python.steps"`
}

func (t *tools) tables(ctx context.Context, _ *mcp.CallToolRequest, in tablesInput) (*mcp.CallToolResult, any, error) {
	if in.Table == "" {
		return t.command(ctx, in.Session, "tables")
	}
	return t.command(ctx, in.Session, "tables", "--", in.Table)
}

func (t *tools) leak(ctx context.Context, _ *mcp.CallToolRequest, in about) (*mcp.CallToolResult, any, error) {
	return t.command(ctx, in.Session, "leak")
}

type fixInput struct {
	about
	Prompt bool `json:"prompt,omitempty" jsonschema:"the evidence with the code around, to write a change by yourself"`
}

// fix proposes changes. None is written, and nothing is run.
func (t *tools) fix(ctx context.Context, _ *mcp.CallToolRequest, in fixInput) (*mcp.CallToolResult, any, error) {
	if in.Prompt {
		return t.command(ctx, in.Session, "fix", "--prompt")
	}
	return t.command(ctx, in.Session, "fix")
}

func (t *tools) where(ctx context.Context, _ *mcp.CallToolRequest, in about) (*mcp.CallToolResult, any, error) {
	return t.command(ctx, in.Session, "where")
}

type checkInput struct {
	about
	Paths []string `json:"paths,omitempty" jsonschema:"Python files, notebooks, folders; default: the working one"`
}

// check checks code, below the working directory only: text that an assistant has read in a session could have told it
// to read other files.
func (t *tools) check(ctx context.Context, _ *mcp.CallToolRequest, in checkInput) (*mcp.CallToolResult, any, error) {
	if len(in.Paths) == 0 {
		in.Paths = []string{"."}
	}
	for _, p := range in.Paths {
		real, err := filepath.EvalSymlinks(p)
		if !filepath.IsLocal(p) || err == nil && !filepath.IsLocal(real) {
			err = fmt.Errorf("%s is not below the directory in which memgauge mcp was started", p)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("check: %w", err)
		}
	}
	return t.command(ctx, in.Session, append([]string{"check", "--"}, in.Paths...)...)
}

// which selects the live process of a request.
type which struct {
	Rank *int `json:"rank,omitempty" jsonschema:"of the trainer of this rank"`
	PID  int  `json:"pid,omitempty" jsonschema:"of this process"`
}

func (w which) flags() (flags []string) {
	if w.Rank != nil {
		flags = append(flags, "--rank="+strconv.Itoa(*w.Rank))
	}
	if w.PID != 0 {
		flags = append(flags, "--pid="+strconv.Itoa(w.PID))
	}
	return flags
}

type tensorsInput struct {
	about
	which
	Top  int  `json:"top,omitempty" jsonschema:"at most so many rows of each kind; default 20"`
	Last bool `json:"last,omitempty" jsonschema:"show the last census and take none"`
}

func (t *tools) tensors(ctx context.Context, _ *mcp.CallToolRequest, in tensorsInput) (*mcp.CallToolResult, any,
	error) {
	args := append([]string{"tensors"}, in.flags()...)
	if in.Top > 0 {
		args = append(args, "--top="+strconv.Itoa(in.Top))
	}
	if in.Last {
		args = append(args, "--last")
	}
	return t.command(ctx, in.Session, args...)
}

type backtraceInput struct {
	about
	All    bool `json:"all,omitempty" jsonschema:"of every process of the session"`
	Locals bool `json:"locals,omitempty" jsonschema:"local variables too, as short texts"`
}

func (t *tools) backtrace(ctx context.Context, _ *mcp.CallToolRequest, in backtraceInput) (*mcp.CallToolResult, any,
	error) {
	args := []string{"backtrace"}
	if in.All {
		args = append(args, "--all")
	}
	if in.Locals {
		args = append(args, "--locals")
	}
	return t.command(ctx, in.Session, args...)
}

type evalInput struct {
	about
	which
	Code    string  `json:"code" jsonschema:"Python code; the value of a last expression is shown"`
	Timeout float64 `json:"timeout_seconds,omitempty" jsonschema:"interrupt the code after so many seconds; default 10"`
}

func (t *tools) eval(ctx context.Context, _ *mcp.CallToolRequest, in evalInput) (*mcp.CallToolResult, any, error) {
	args := append([]string{"eval"}, in.flags()...)
	if in.Timeout > 0 {
		args = append(args, "--timeout="+time.Duration(in.Timeout*float64(time.Second)).String())
	}
	return t.command(ctx, in.Session, append(args, "--", in.Code)...)
}

type queryInput struct {
	about
	SQL   string `json:"sql" jsonschema:"one SELECT, WITH, SHOW, DESCRIBE, EXPLAIN or SUMMARIZE"`
	Limit int    `json:"limit,omitempty" jsonschema:"at most so many rows; default 100, at most 1000"`
}

const (
	usualRows = 100
	mostRows  = 1000
	// queryPatience bounds a query: one that takes longer is probably a mistake.
	queryPatience = 30 * time.Second
)

// query writes each row as a line. The query ends when the answer exceeds its bounds.
func (t *tools) query(ctx context.Context, _ *mcp.CallToolRequest, in queryInput) (*mcp.CallToolResult, any, error) {
	limit := usualRows
	if in.Limit > 0 {
		limit = min(in.Limit, mostRows)
	}
	sub, done, err := t.about(ctx, in.Session)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	var errs cut
	errs.most = maxNotes
	sub.Stderr = &errs
	out := lines{cut: cut{most: maxAnswer}, rows: limit}
	if err := t.ask(ctx, sub, in.SQL, &out); err != nil && !errors.Is(err, errEnough) {
		text := err.Error()
		if hint := remedy.Of(err); hint != "" {
			text += "\nhint: " + hint
		}
		return answer(text, errs.text(""), true), nil, nil
	}
	return answer(out.text(), errs.text(""), false), nil, nil
}

func (t *tools) ask(ctx context.Context, sub *app.App, sql string, out *lines) error {
	s, err := sub.Connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Query(ctx, api.QueryRequest{SQL: sql, Format: "ndjson", Timeout: queryPatience,
		Note: func(text string) { plain.Fprintf(sub.Stderr, "memgauge: %s\n", text) }}, out)
}

// report is a document whose lists are cut until it fits.
func (t *tools) report(ctx context.Context, _ *mcp.CallToolRequest, in about) (*mcp.CallToolResult, any, error) {
	out, errs := cut{most: maxReport}, cut{most: maxNotes}
	code, err := t.run(ctx, in.Session, &out, &errs, "report", "--json")
	if err != nil {
		return nil, nil, err
	}
	if code != 0 {
		return answer("", errs.text(""), true), nil, nil
	}
	var document any
	if err := json.Unmarshal(out.kept, &document); err != nil {
		return nil, nil, fmt.Errorf("report: it is larger than %d bytes: ask for its parts with other tools",
			maxReport)
	}
	for most := 50; ; most /= 2 {
		b, err := json.Marshal(shorten(document, most))
		if err != nil {
			return nil, nil, fmt.Errorf("report: %w", err)
		}
		if len(b) <= maxAnswer || most == 0 {
			short := cut{most: maxAnswer}
			_, _ = short.Write(b)
			return answer(short.text("ask for its parts with the other tools"), errs.text(""), false), nil, nil
		}
	}
}
