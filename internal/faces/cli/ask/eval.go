package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
)

// evalOptions are the flags of eval.
type evalOptions struct {
	file    string
	timeout string
	app.Which
	json   bool
	at     string // main, step
	beside bool
}

func (a *commands) evalCommand() *cobra.Command {
	o := evalOptions{}
	c := &cobra.Command{
		Use:   "eval CODE",
		Short: "Run Python code in the live trainer",
		Long: "Runs CODE in the trainer's __main__: what it reads is current, what it changes is changed. Names that aren't global are looked\n" +
			"up in the running functions. What the code prints comes back while it runs, and its last expression is shown. An exception\n" +
			"prints its traceback and exits 1. CODE - is read from standard input.\n\n" +
			"While the code runs, the main thread stands still between two of its bytecodes, where nothing is half done; with --at step the\n" +
			"thread that trains stands still at the end of a step, which is the place for code that changes weights. A main thread that waits\n" +
			"for input, a lock or a sleep needn't come by. --timeout includes the wait. docs/eval.md has the details.",
		Example: "  memgauge eval \"print(len(all_losses)); all_losses.clear()\"\n" +
			"  memgauge 27891 eval --rank 1 \"optimizer.param_groups[0]['lr']\"\n" +
			"  memgauge eval --at step \"for p in model.parameters(): p.data.clamp_(-1, 1)\"\n" +
			"  memgauge eval --all --timeout 30s -F probe.py",
		Args: func(_ *cobra.Command, args []string) error {
			if o.file == "" && len(args) != 1 || o.file != "" && len(args) != 0 {
				return errors.New("want CODE in one argument, - for standard input, or -F FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.eval(cmd.Context(), o, args) },
	}
	f := c.Flags()
	f.StringVarP(&o.file, "file", "F", "", "run the code in `FILE`")
	f.StringVar(&o.timeout, "timeout", "10s", "interrupt the code after `DURATION`; 0 for no limit")
	f.IntVar(&o.Rank, "rank", -1, "run it in the trainer of rank `N`")
	f.IntVar(&o.Pid, "pid", 0, "run it in the process `P`")
	f.BoolVar(&o.All, "all", false, "run it in every trainer of the session, its output marked by rank or pid")
	f.BoolVar(&o.json, "json", false, "print one JSON document, in the end")
	f.StringVar(&o.at, "at", "main",
		"`PLACE` where the trainer stands still for the code: main (between two bytecodes), step (the end of a step)")
	f.BoolVar(&o.beside, "beside", false,
		"stop nothing: run beside the main thread, even while PyTorch computes; code that changes tensors can then end the process")
	c.MarkFlagsMutuallyExclusive("rank", "pid", "all")
	c.MarkFlagsMutuallyExclusive("at", "beside")
	app.Offer(c, "at", "main", "step")
	return c
}

func (a *commands) eval(ctx context.Context, o evalOptions, args []string) error {
	timeout, err := units.ParseDuration(o.timeout)
	if err != nil || timeout < 0 {
		return app.Usage(fmt.Errorf("eval: --timeout %q: not a duration such as 10s", o.timeout))
	}
	place, err := o.place()
	if err != nil {
		return err
	}
	code, err := a.code(ctx, o, args)
	if err != nil {
		return err
	}
	request := func(t ask.Target) api.EvalRequest {
		return api.EvalRequest{Choice: o.Choice(t), Code: code, Place: place, Timeout: time.Duration(timeout)}
	}
	one, err := a.Narrow(ctx)
	if err != nil {
		return err
	}
	if o.json || !one && o.All {
		return a.evalEach(ctx, o, time.Duration(timeout), request)
	}
	t, err := a.Target(ctx)
	if err != nil {
		return err
	}
	session := t.Open()
	defer session.Close()
	if o.All {
		return a.evalAll(ctx, session, request(t))
	}
	return a.evalOne(ctx, session, request(t))
}

func (a *commands) evalOne(ctx context.Context, s api.Session, q api.EvalRequest) error {
	streams := [2]io.Writer{a.Stdout, term.ProgramOutput(a.Stderr)}
	r, err := s.Eval(ctx, q, api.EvalOutput{Print: func(_ int, stderr bool, text []byte) error {
		_, err := streams[index(stderr)].Write(text)
		return err
	}})
	if err != nil {
		return err
	}
	showResult(&r.Results[0], streams[0], streams[1])
	return evalFailure(&r.Results[0], q.Timeout)
}

func index(stderr bool) int {
	if stderr {
		return 1
	}
	return 0
}

func (o evalOptions) place() (api.Place, error) {
	switch {
	case o.beside:
		return api.Beside, nil
	case o.at == "main":
		return api.Main, nil
	case o.at == "step":
		return api.Step, nil
	}
	return "", app.Usage(fmt.Errorf("eval: --at %q: not one of main, step", o.at))
}

// readCode reads at most as much as may be sent, since the file may never end.
func (a *commands) readCode(ctx context.Context, path string) ([]byte, error) {
	f, _, err := a.OpenInput(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, api.MaxCode+1))
}

// code returns the code to run.
func (a *commands) code(ctx context.Context, o evalOptions, args []string) (string, error) {
	var text []byte
	var err error
	switch {
	case o.file != "":
		text, err = a.readCode(ctx, o.file)
	case args[0] == "-":
		text, err = a.readCode(ctx, "-")
	default:
		text = []byte(args[0])
	}
	if err != nil {
		return "", fmt.Errorf("eval: %w", err)
	}
	if len(text) > api.MaxCode {
		return "", fmt.Errorf("eval: code of more than %s", units.Bytes(1<<20))
	}
	if !utf8.Valid(text) {
		return "", errors.New("eval: the code is not UTF-8")
	}
	return string(text), nil
}

// showResult prints a process's result after its output.
func showResult(r *api.EvalResult, stdout, stderr io.Writer) {
	if r.Value != "" {
		fmt.Fprintln(stdout, r.Value)
	}
	if r.Exception != "" {
		fmt.Fprint(stderr, r.Exception)
	}
}

// evalFailure is the error that the command ends with, nil for none.
func evalFailure(r *api.EvalResult, timeout time.Duration) error {
	err := r.Failure(timeout)
	if errors.Is(err, api.ErrException) {
		return app.Exit(app.ExitFailed, nil) // its traceback was printed
	}
	return err
}

// worst returns the most important failure of several processes: an exception says more than a timeout.
func worst(results []api.EvalResult, timeout time.Duration) error {
	var chosen error
	for i := range results {
		err := evalFailure(&results[i], timeout)
		if err != nil && (chosen == nil || results[i].Outcome == api.Exception || results[i].Error != nil) {
			chosen = err
		}
	}
	return chosen
}

func (a *commands) evalAll(ctx context.Context, s api.Session, q api.EvalRequest) error {
	var mu sync.Mutex
	var streams [][2]*prefixer // by process: standard output and error
	r, err := s.Eval(ctx, q, api.EvalOutput{Chosen: func(list []api.Process) error {
		for _, p := range list {
			out, errs := newPrefixers(&mu, p, a.Stdout, term.ProgramOutput(a.Stderr))
			streams = append(streams, [2]*prefixer{out, errs})
		}
		return nil
	}, Print: func(process int, stderr bool, text []byte) error {
		_, err := streams[process][index(stderr)].Write(text)
		return err
	}})
	if err != nil {
		return err
	}
	for i := range r.Results {
		showEnd(&r.Results[i], streams[i][0], streams[i][1])
	}
	return worstShown(r.Results, q.Timeout)
}

// worstShown is worst where errors were shown with their processes.
func worstShown(results []api.EvalResult, timeout time.Duration) error {
	if slices.ContainsFunc(results, func(r api.EvalResult) bool { return r.Error != nil }) {
		return app.Exit(app.ExitFailed, nil)
	}
	return worst(results, timeout)
}

// showEnd writes what a process's lines end with.
func showEnd(r *api.EvalResult, stdout, stderr *prefixer) {
	showResult(r, stdout, stderr)
	if e := r.Error; e != nil {
		fmt.Fprintf(stderr, "%v\n", e)
	}
	stdout.flush()
	stderr.flush()
}

func newPrefixers(mu *sync.Mutex, p api.Process, stdout, stderr io.Writer) (out, errs *prefixer) {
	head := "[" + p.Label() + "] "
	return &prefixer{mu: mu, w: stdout, head: head}, &prefixer{mu: mu, w: stderr, head: head}
}

// prefixer writes whole lines, each with a prefix that names its process.
type prefixer struct {
	mu   *sync.Mutex // of all that write to the same terminal
	w    io.Writer
	head string
	rest []byte
}

// maxPartial bounds a line that waits for its end; a longer one is written in pieces.
const maxPartial = 64 << 10

func (p *prefixer) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		i := bytes.IndexByte(p.rest, '\n')
		if i < 0 && len(p.rest) < maxPartial {
			return len(b), nil
		}
		if i < 0 {
			i = len(p.rest) - 1
		}
		if err := p.line(p.rest[:i+1]); err != nil {
			return 0, err
		}
		p.rest = p.rest[i+1:]
	}
}

func (p *prefixer) line(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := append([]byte(p.head), b...)
	if !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	_, err := p.w.Write(out)
	return err
}

func (p *prefixer) flush() {
	if len(p.rest) > 0 {
		_ = p.line(p.rest) // the last line; there is no caller for its error
		p.rest = nil
	}
}

// evalDocument is what eval --json prints.
type evalDocument struct {
	SchemaVersion int        `json:"schema_version"`
	Processes     []evalJSON `json:"processes"`
}

type evalJSON struct {
	PID       int     `json:"pid"`
	Rank      *int    `json:"rank"`    // null if unknown
	Outcome   string  `json:"outcome"` // ok, exception, timeout, interrupted, blocked, ended (the process), error
	Stdout    string  `json:"stdout"`
	Stderr    string  `json:"stderr"`
	Value     *string `json:"value"`     // repr of the last expression
	Exception *string `json:"exception"` // traceback; for ended and error what happened
	Truncated bool    `json:"truncated"` // more was printed than a document holds
	Seconds   float64 `json:"seconds"`   // of the code
	Place     *string `json:"place"`     // main, step, idle, beside; null if it did not begin
	Waited    float64 `json:"waited"`    // s for the place
}

// maxJSONOutput bounds the bytes of a stream that are kept for the document.
const maxJSONOutput = 64 << 20

// captured keeps the beginning of one stream of a process, at most maxJSONOutput bytes.
type captured struct {
	bytes.Buffer
	truncated bool
}

func (c *captured) Write(b []byte) (int, error) {
	room := min(len(b), maxJSONOutput-c.Len())
	c.truncated = c.truncated || room < len(b)
	c.Buffer.Write(b[:room])
	return len(b), nil
}

// evaluated is what came of code in the processes of a session, once it has ended in all of them.
type evaluated struct {
	results []api.EvalResult
	streams [][2]captured
}

// evalEach runs code in each session that is meant, and shows what came of it in the end.
func (a *commands) evalEach(ctx context.Context, o evalOptions, limit time.Duration,
	request func(ask.Target) api.EvalRequest) error {
	outcome := func(v evaluated) error { return worst(v.results, limit) }
	if !o.json {
		outcome = func(v evaluated) error { return worstShown(v.results, limit) }
	}
	return app.Put(ctx, a.App, app.Question[evaluated]{Role: source.Processes, JSON: o.json, Outcome: outcome,
		Endless: true,
		Ask:     func(ctx context.Context, t ask.Target) (evaluated, error) { return evaluate(ctx, t, request(t)) },
		Text: func(w io.Writer, v evaluated) error {
			v.show(w, io.Discard)
			return nil
		},
		Beside: func(w io.Writer, v evaluated) {
			if !o.json {
				v.show(io.Discard, w)
			}
		},
		Document: evalDocumentOf})
}

func evaluate(ctx context.Context, t ask.Target, q api.EvalRequest) (v evaluated, err error) {
	session := t.Open()
	defer session.Close()
	r, err := session.Eval(ctx, q, api.EvalOutput{Chosen: func(list []api.Process) error {
		v.streams = make([][2]captured, len(list))
		return nil
	}, Print: func(process int, stderr bool, text []byte) error {
		_, err := v.streams[process][index(stderr)].Write(text)
		return err
	}})
	v.results = r.Results
	return v, err
}

// show writes the lines of each process under its name.
func (v evaluated) show(stdout, stderr io.Writer) {
	var mu sync.Mutex
	for i := range v.results {
		r := &v.results[i]
		out, errs := newPrefixers(&mu, r.Process, stdout, stderr)
		_, _ = out.Write(v.streams[i][0].Bytes()) // the writers are the caller's buffers
		_, _ = errs.Write(v.streams[i][1].Bytes())
		showEnd(r, out, errs)
	}
}

func evalDocumentOf(v evaluated) any {
	told := evalDocument{SchemaVersion: 1}
	for i := range v.results {
		stdout, stderr := &v.streams[i][0], &v.streams[i][1]
		j := resultDocument(&v.results[i])
		j.Stdout, j.Stderr = stdout.String(), stderr.String()
		j.Truncated = stdout.truncated || stderr.truncated
		told.Processes = append(told.Processes, j)
	}
	return told
}

func resultDocument(r *api.EvalResult) evalJSON {
	j := evalJSON{PID: r.Process.PID, Outcome: string(r.Outcome), Seconds: r.Elapsed.Seconds()}
	if r.Process.Rank >= 0 {
		j.Rank = &r.Process.Rank
	}
	if r.Value != "" {
		j.Value = &r.Value
	}
	if r.Began {
		name := string(r.Place)
		j.Place = &name
	}
	j.Waited = max(0, r.Took-r.Elapsed).Seconds()
	if text := r.Exception; r.Error != nil || text != "" {
		if r.Error != nil {
			text = r.Error.Message
		}
		j.Exception = &text
	}
	return j
}
