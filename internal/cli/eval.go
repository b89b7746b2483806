package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/units"
	"github.com/memgauge/memgauge/internal/wire"
)

// evalOptions are what the user may say about an eval.
type evalOptions struct {
	file    string
	timeout string
	rank    int // -1: not said
	pid     int // 0: not said
	all     bool
	json    bool
	at      string // main, step
	beside  bool
}

func (a *app) evalCommand() *cobra.Command {
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
	f.IntVar(&o.rank, "rank", -1, "run it in the trainer of rank `N`")
	f.IntVar(&o.pid, "pid", 0, "run it in the process `P`")
	f.BoolVar(&o.all, "all", false, "run it in every trainer of the session, its output marked by rank or pid")
	f.BoolVar(&o.json, "json", false, "print one JSON document, in the end")
	f.StringVar(&o.at, "at", "main",
		"`PLACE` where the trainer stands still for the code: main (between two bytecodes), step (the end of a step)")
	f.BoolVar(&o.beside, "beside", false,
		"stop nothing: run beside the main thread, even while PyTorch computes; code that changes tensors can then end the process")
	c.MarkFlagsMutuallyExclusive("rank", "pid", "all")
	c.MarkFlagsMutuallyExclusive("at", "beside")
	return c
}

func (a *app) eval(ctx context.Context, o evalOptions, args []string) error {
	timeout, err := units.ParseDuration(o.timeout)
	if err != nil || timeout < 0 {
		return usageError{fmt.Errorf("eval: --timeout %q: not a duration such as 10s", o.timeout)}
	}
	place, err := o.place()
	if err != nil {
		return err
	}
	code, err := a.code(ctx, o, args)
	if err != nil {
		return err
	}
	t, err := a.target(ctx)
	if err != nil {
		return err
	}
	chosen, err := o.choose(t.Processes(), t)
	if err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	request := wire.Eval{Timeout: time.Duration(timeout), Code: code, Place: place}
	if o.json {
		return a.evalJSON(ctx, request, chosen)
	}
	if o.all {
		return a.evalAll(ctx, request, chosen)
	}
	r := evalIn(ctx, request, chosen[0], a.stdout, programOutput(a.stderr))
	r.show(a.stdout, programOutput(a.stderr))
	return r.failure(request.Timeout)
}

func (o evalOptions) place() (wire.Place, error) {
	switch {
	case o.beside:
		return wire.PlaceBeside, nil
	case o.at == "main":
		return wire.PlaceMain, nil
	case o.at == "step":
		return wire.PlaceStep, nil
	}
	return 0, usageError{fmt.Errorf("eval: --at %q: not one of main, step", o.at)}
}

// readCode reads no more than may be sent: the file may be one that never ends.
func (a *app) readCode(ctx context.Context, path string) ([]byte, error) {
	f, _, err := a.openInput(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, wire.MaxFrame+1))
}

// code is what to run.
func (a *app) code(ctx context.Context, o evalOptions, args []string) (string, error) {
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
	if len(text) > wire.MaxFrame-8 {
		return "", fmt.Errorf("eval: code of more than %s", units.Bytes(wire.MaxFrame))
	}
	if !utf8.Valid(text) {
		return "", errors.New("eval: the code is not UTF-8")
	}
	return string(text), nil
}

// choose picks the processes to ask: what the flags say, else what the endpoint says, else the first, which is the main
// trainer.
func (o evalOptions) choose(all []session.Process, t session.Target) ([]session.Process, error) {
	live := slices.DeleteFunc(slices.Clone(all), func(p session.Process) bool { return !p.Alive })
	if len(live) == 0 {
		return nil, remedy.Add(errors.New("no observed process of the session is alive"),
			"this needs a live trainer; query works on finished sessions too")
	}
	with := func(ok func(session.Process) bool) []session.Process {
		return slices.DeleteFunc(slices.Clone(live), func(p session.Process) bool { return !ok(p) })
	}
	rank := cmp.Or(o.rank+1, t.Rank+1) - 1 // -1 in both means not said
	switch {
	case o.all:
		return trainers(live), nil
	case o.pid != 0:
		return firstOf(with(func(p session.Process) bool { return p.PID == o.pid }), fmt.Sprintf("pid %d", o.pid), live)
	case rank >= 0:
		return firstOf(with(func(p session.Process) bool { return p.Rank == rank }), fmt.Sprintf("rank %d", rank), live)
	}
	if own := with(func(p session.Process) bool { return p.PID == t.PID }); len(own) > 0 {
		return own, nil
	}
	return live[:1], nil
}

// trainers leaves out the processes that only start or feed the trainers: a launcher has no rank, a DataLoader's worker
// makes no steps. Where nothing tells them apart, all remain.
func trainers(live []session.Process) []session.Process {
	for _, ok := range []func(session.Process) bool{
		func(p session.Process) bool { return p.Torch },
		func(p session.Process) bool { return p.Rank >= 0 },
	} {
		found := slices.DeleteFunc(slices.Clone(live), func(p session.Process) bool { return !ok(p) })
		if len(found) > 0 {
			live = found
		}
	}
	return live
}

func firstOf(found []session.Process, what string, live []session.Process) ([]session.Process, error) {
	if len(found) > 0 {
		return found[:1], nil
	}
	var names []string
	for _, p := range live {
		names = append(names, label(p))
	}
	return nil, remedy.Add(fmt.Errorf("no live process with %s", what), "there are: "+strings.Join(names, ", "))
}

// label names a process in a line's head.
func label(p session.Process) string {
	if p.Rank >= 0 && p.Torch {
		return fmt.Sprintf("rank %d", p.Rank)
	}
	return fmt.Sprintf("pid %d", p.PID)
}

// evalResult is how an eval in one process went.
type evalResult struct {
	process session.Process
	agent.Result
	took time.Duration // from the request to the answer
	err  error         // it didn't get as far as an outcome
}

// dialFor gives the agent's first word as long as its code may take: both need Python's lock.
func dialFor(ctx context.Context, timeout time.Duration, socket string) (*agent.Client, error) {
	if timeout > agent.HelloWait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return agent.Dial(ctx, socket)
}

func evalIn(ctx context.Context, e wire.Eval, p session.Process, stdout, stderr io.Writer) evalResult {
	r := evalResult{process: p}
	c, err := dialFor(ctx, e.Timeout, p.Socket)
	if err != nil {
		r.err = fmt.Errorf("eval in %d: %w", p.PID, err)
		return r
	}
	defer c.Close()
	began := time.Now()
	r.Result, r.err = c.Eval(ctx, e, stdout, stderr)
	r.took = time.Since(began)
	if r.err != nil {
		r.Elapsed = time.Since(began)
	}
	return r
}

// show prints what comes after the output.
func (r *evalResult) show(stdout, stderr io.Writer) {
	if r.Value != "" {
		fmt.Fprintln(stdout, r.Value)
	}
	if r.Exception != "" {
		fmt.Fprint(stderr, r.Exception)
	}
}

// failure is the error that the command ends with, nil for none.
func (r *evalResult) failure(timeout time.Duration) error {
	if r.err != nil {
		return r.err
	}
	switch r.Outcome {
	case wire.OutcomeFine:
		return nil
	case wire.OutcomeException:
		return &exitError{code: exitFailed}
	case wire.OutcomeInterrupted:
		return &exitError{exitInterrupted, errors.New("eval: the code was interrupted")}
	}
	if r.Outcome == wire.OutcomeGoesOn && (timeout == 0 || r.took < timeout) { // blocked when it was to be interrupted
		return &exitError{exitInterrupted, errors.New("eval: the code can't be interrupted and goes on")}
	}
	if r.Outcome == wire.OutcomeTimeout && !r.Began {
		err := fmt.Errorf("eval: the code could not begin within --timeout %s", units.Duration(timeout))
		return &exitError{exitTimeout, remedy.Add(err,
			"--timeout 1m waits longer; --beside runs it where it may meet half-done work")}
	}
	err := fmt.Errorf("eval: the code ran into --timeout %s", units.Duration(timeout))
	return &exitError{exitTimeout, remedy.Add(err, "--timeout 1m gives it more time")}
}

// worst orders failures of several processes: an exception says more than a timeout.
func worst(results []evalResult, timeout time.Duration) error {
	var chosen error
	for i := range results {
		err := results[i].failure(timeout)
		var exit *exitError
		if err != nil && (chosen == nil || !errors.As(err, &exit) || exit.code == exitFailed) {
			chosen = err
		}
	}
	return chosen
}

// inEach runs the code in all processes at once, each with its own writers.
func inEach(ctx context.Context, e wire.Eval, chosen []session.Process,
	writers func(int) (io.Writer, io.Writer)) []evalResult {
	results := make([]evalResult, len(chosen))
	var wg sync.WaitGroup
	for i, p := range chosen {
		stdout, stderr := writers(i)
		wg.Go(func() { results[i] = evalIn(ctx, e, p, stdout, stderr) })
	}
	wg.Wait()
	return results
}

func (a *app) evalAll(ctx context.Context, e wire.Eval, chosen []session.Process) error {
	var mu sync.Mutex
	type pair struct{ stdout, stderr *prefixer }
	pairs := make([]pair, len(chosen))
	for i, p := range chosen {
		head := "[" + label(p) + "] "
		pairs[i] = pair{&prefixer{mu: &mu, w: a.stdout, head: head},
			&prefixer{mu: &mu, w: programOutput(a.stderr), head: head}}
	}
	results := inEach(ctx, e, chosen, func(i int) (io.Writer, io.Writer) { return pairs[i].stdout, pairs[i].stderr })
	for i := range results {
		results[i].show(pairs[i].stdout, pairs[i].stderr)
		if results[i].err != nil {
			fmt.Fprintf(pairs[i].stderr, "%v\n", results[i].err)
		}
		pairs[i].stdout.flush()
		pairs[i].stderr.flush()
	}
	if err := worst(results, e.Timeout); err != nil {
		var exit *exitError
		if errors.As(err, &exit) {
			return err
		}
		return &exitError{code: exitFailed} // it was printed with its process
	}
	return nil
}

// prefixer writes whole lines, each with a head that says where it comes from.
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
		_ = p.line(p.rest) // the last line; nobody is left to tell
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

// maxJSONOutput bounds what is kept of a stream until the document is written.
const maxJSONOutput = 64 << 20

// captured is one stream of a process, as much of it as a document holds.
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

func (a *app) evalJSON(ctx context.Context, e wire.Eval, chosen []session.Process) error {
	stdout, stderr := make([]captured, len(chosen)), make([]captured, len(chosen))
	results := inEach(ctx, e, chosen, func(i int) (io.Writer, io.Writer) { return &stdout[i], &stderr[i] })
	doc := evalDocument{SchemaVersion: 1}
	for i, r := range results {
		j := r.document()
		j.Stdout, j.Stderr = stdout[i].String(), stderr[i].String()
		j.Truncated = stdout[i].truncated || stderr[i].truncated
		doc.Processes = append(doc.Processes, j)
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	return worst(results, e.Timeout)
}

func (r *evalResult) document() evalJSON {
	j := evalJSON{PID: r.process.PID, Outcome: r.Outcome.String(), Seconds: r.Elapsed.Seconds()}
	if r.process.Rank >= 0 {
		j.Rank = &r.process.Rank
	}
	if r.Value != "" {
		j.Value = &r.Value
	}
	if r.Began {
		name := r.Place.String()
		j.Place = &name
	}
	j.Waited = max(0, r.took-r.Elapsed).Seconds()
	switch {
	case errors.Is(r.err, agent.ErrEnded):
		j.Outcome = "ended"
	case r.err != nil:
		j.Outcome = "error"
	}
	if text := r.Exception; r.err != nil || text != "" {
		if r.err != nil {
			text = r.err.Error()
		}
		j.Exception = &text
	}
	return j
}
