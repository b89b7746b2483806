package advise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/judge/estimate"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type estimateOptions struct {
	device     string
	python     string
	conf       string
	steps      int
	shapes     bool
	once       bool
	network    bool
	writes     bool
	batches    []int
	precisions []string
	json       bool
	timeout    units.Duration
}

// maxSteps bounds a run: the peak of a training that repeats itself is there after three.
const maxSteps = 1000

func (a *commands) estimateCommand() *cobra.Command {
	var o estimateOptions
	c := &cobra.Command{
		Use: "estimate [--] [PYTHON] SCRIPT [ARGUMENT…]",
		Short: "Say how much GPU memory a training will take, and the largest batch size that fits, " +
			"without a GPU",
		Long: "Runs SCRIPT for a few steps on the host, in full once, and then for shapes alone where these " +
			"suffice. What it writes goes to a\n" +
			"copy that is removed, and it has no network, unless --writes and --network say so. It sees a GPU, " +
			"\"cuda:0\", that isn't there;\n" +
			"what it would allocate is written down, and played by the rules of PyTorch's allocator at other " +
			"batch sizes and\n" +
			"precisions (docs/estimate.md). Its batch size is found in its arguments\n" +
			"(--batch-size 8), in its text (batch_size = 8), in its DataLoader, or where {batch:8} stands among " +
			"its arguments. What no run on the\n" +
			"host can see, CUDA's context and the workspaces of cuDNN, is in the interval, and is named. Exit " +
			"code 3 means that it will not fit.\n" +
			"Without SCRIPT, for a session (named before the command, or --session DIR), the answer comes from " +
			"what it has recorded: nothing is\n" +
			"run, and what a session can't know is said.",
		Example: "  memgauge estimate train.py --batch-size 8\n" +
			"  memgauge estimate --device-memory \"GTX 1650\" -- .venv/bin/python train.py\n" +
			"  memgauge estimate --device-memory 4GiB --batch 4,8,16 --precision as-is,mixed --shapes train.py\n" +
			"  memgauge estimate --session runs/7 --device-memory 24GiB",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.SessionDir != "" && len(args) > 0 {
				return app.Usage(errors.New("estimate: either a SCRIPT or --session, not both"))
			}
			if len(args) == 0 && a.Named() {
				return a.estimateSession(cmd.Context(), o, changed(cmd.Flags(), ofScript))
			}
			return a.estimate(cmd.Context(), o, args)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the script is its own
	f.StringVar(&o.device, "device-memory", "", "the GPU to fit into: a `SIZE` or a name such as \"GTX 1650\"")
	f.StringVar(&o.python, "python", "", "interpreter `PATH` (default: python3, or the one before SCRIPT)")
	f.StringVar(&o.conf, "conf", "", "settings of PyTorch's allocator, as in PYTORCH_ALLOC_CONF")
	f.IntVar(&o.steps, "steps", 3, "optimizer steps to run")
	f.BoolVar(&o.shapes, "shapes", false,
		"leave out arithmetic on large tensors: faster, and for models larger than the host's memory")
	f.BoolVar(&o.once, "once", false, "run the script at its own batch size only: no other is estimated then")
	f.BoolVar(&o.network, "network", false, "let the script reach the network, for what it downloads")
	f.BoolVar(&o.writes, "writes", false, "let the script write files for real, in each run")
	f.IntSliceVar(&o.batches, "batch", nil, "batch `SIZES` to estimate (default: the script's own)")
	f.StringSliceVar(&o.precisions, "precision", []string{"as-is", "mixed", "bf16"},
		"`PRECISIONS`: as-is, mixed (autocast to bfloat16), bf16 (model and optimizer)")
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.Var(&o.timeout, "timeout", "how long all runs together may take (default: no limit)")
	f.Lookup("timeout").DefValue = ""
	return c
}

// changed lists those of some flags that were given.
func changed(f *pflag.FlagSet, names []string) (given []string) {
	for _, name := range names {
		if f.Changed(name) {
			given = append(given, name)
		}
	}
	return given
}

// precisionNames are the values of --precision.
var precisionNames = map[string]string{"as-is": estimate.AsIs, "mixed": estimate.Mixed, "bf16": estimate.Half}

// question checks the command line.
func (o *estimateOptions) question() (q estimate.Question, precisions []string, err error) {
	if o.steps < 1 || o.steps > maxSteps {
		return q, nil, fmt.Errorf("--steps %d: from 1 to %d", o.steps, maxSteps)
	}
	for _, b := range o.batches {
		if b < 1 || b > 1<<20 {
			return q, nil, fmt.Errorf("--batch %d: from 1 to %d", b, 1<<20)
		}
	}
	for _, p := range o.precisions {
		name, ok := precisionNames[p]
		if !ok {
			return q, nil, remedy.Add(fmt.Errorf("--precision %q: unknown", p), "precisions are as-is, mixed, bf16")
		}
		if !slices.Contains(precisions, name) {
			precisions = append(precisions, name)
		}
	}
	if o.device != "" {
		if q.Device, err = estimate.ParseDevice(o.device); err != nil {
			return q, nil, fmt.Errorf("--device-memory: %w", err)
		}
	}
	q.Batches = o.batches
	q.Options = alloc.Options{}
	if err := q.Options.Set(o.conf); err != nil {
		return q, nil, fmt.Errorf("--conf: %w", err)
	}
	return q, precisions, nil
}

// interpreter takes Python and its flags off a command line: python3 -u train.py.
func interpreter(given string, args []string) (python string, script []string, err error) {
	if len(args) == 0 {
		return "", nil, remedy.Add(errors.New("no SCRIPT"), "memgauge estimate train.py --its-arguments, or "+
			"--session DIR for what a session took")
	}
	python, script = given, args
	if base := filepath.Base(args[0]); strings.HasPrefix(base, "python") && !strings.HasSuffix(base, ".py") {
		python, script = args[0], args[1:]
		for len(script) > 0 && strings.HasPrefix(script[0], "-") && script[0] != "-m" {
			script = script[1:]
		}
	}
	if len(script) == 0 || script[0] == "-m" && len(script) == 1 {
		return "", nil, errors.New("no SCRIPT behind the interpreter")
	}
	if script[0] != "-m" && !strings.HasSuffix(script[0], ".py") {
		return "", nil, remedy.Add(fmt.Errorf("%q is no Python script", script[0]),
			"name a file that ends in .py, or -m MODULE; torchrun and the like: estimate the script that they start")
	}
	if python == "" {
		python = "python3"
	}
	return python, script, nil
}

func (a *commands) estimate(ctx context.Context, o estimateOptions, args []string) error {
	q, precisions, err := o.question()
	if err != nil {
		return app.Usage(fmt.Errorf("estimate: %w", err))
	}
	python, script, err := interpreter(o.python, args)
	if err != nil {
		return app.Usage(fmt.Errorf("estimate: %w", err))
	}
	if python, err = exec.LookPath(python); err != nil {
		return remedy.Add(fmt.Errorf("estimate: the interpreter (--python): %w", err),
			"name the training's interpreter before SCRIPT")
	}
	if o.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, time.Duration(o.timeout), fmt.Errorf("%w of %s",
			api.ErrTimeout, o.timeout))
		defer stop()
	}
	run := estimate.Run{Python: python, Argv: script, Steps: o.steps, Shapes: o.shapes, Once: o.once,
		Capability: capability(q), Network: o.network, Writes: o.writes}
	if err := run.Enclose(ctx); err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	plain.Fprintf(a.Stderr, "memgauge: %s\n", beforehand(run, precisions))
	ctx, end := a.patience(ctx, patience, run.Shapes)
	programs, err := estimate.Observe(ctx, run, precisions, a.progress())
	end()
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	cases, err := estimate.Estimate(ctx, programs, q)
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	return a.showEstimate(answer{o, q, script, programs, cases})
}

// beforehand says what is about to be done with the user's script.
func beforehand(r estimate.Run, precisions []string) string {
	name, times := r.Argv[0], "once"
	if name == "-m" {
		name = r.Argv[1]
	}
	if n := estimate.Runs(r, precisions); n > 1 {
		times = fmt.Sprintf("up to %d times", n)
	}
	files := map[estimate.FilesFence]string{
		estimate.FilesReal: "what it writes is written each time (--writes)",
		estimate.FilesView: "what it writes goes to a copy that is removed",
		estimate.FilesShut: "it may write nothing but temporary files (a copy to write to can't be had here; --writes)",
	}[r.Fence.Files]
	network := map[estimate.NetworkFence]string{
		estimate.NetworkReal: "it has the network (--network)",
		estimate.NetworkOwn:  "it has no network",
		estimate.NetworkNone: "it has no network, not even within this machine",
	}[r.Fence.Network]
	return fmt.Sprintf("%s is run here %s, for %d steps each; %s, and %s", name, times, r.Steps, files, network)
}

// patience is how long the runs may take before the user is asked.
const patience = time.Minute

// patience asks on a terminal whether to go on once the runs have taken that long, and tells of it elsewhere. The runs
// go on meanwhile: end ends the question.
func (a *commands) patience(ctx context.Context, after time.Duration, shapes bool) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	asking, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	hint := "; --shapes leaves out arithmetic"
	if shapes {
		hint = ""
	}
	go func() {
		defer close(done)
		select {
		case <-asking.Done():
			return
		case <-time.After(after):
		}
		text := fmt.Sprintf("memgauge: the runs have taken %s so far, and may take several times that%s",
			units.Duration(after), hint)
		if in, ok := a.Stdin.(*os.File); !ok || !term.IsTerminal(in) || term.TerminalWidth(a.Stderr) == 0 {
			plain.Fprintf(a.Stderr, "%s\n", text)
			return
		}
		plain.Fprintf(a.Stderr, "%s. Go on? [Y/n] ", text)
		answer, err := bufio.NewReader(a.OpenStdin(asking)).ReadString('\n')
		if err != nil && asking.Err() != nil {
			fmt.Fprintln(a.Stderr)
		}
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "n") {
			cancel(remedy.Add(errors.New("ended, as you said"), "--shapes --once --precision as-is takes least"))
		}
	}()
	return ctx, func() { stop(); <-done }
}

func capability(q estimate.Question) [2]int {
	if q.Device.Total > 0 {
		return q.Device.Capability
	}
	return [2]int{8, 0}
}

// progress tells a person who waits which run is made. Scripts see nothing of it.
func (a *commands) progress() func(string) {
	if term.TerminalWidth(a.Stderr) == 0 {
		return func(string) {}
	}
	return func(what string) { plain.Fprintf(a.Stderr, "memgauge: %s\n", what) }
}

func (a *commands) showEstimate(r answer) error {
	out := &sink.Spool{To: a.Answer(r.options.json)}
	defer out.Discard()
	var err error
	if r.options.json {
		err = r.writeJSON(out)
	} else {
		err = r.writeText(out, term.TerminalWidth(a.Stdout))
	}
	if err == nil {
		err = out.Commit()
	}
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	if r.fitsNot() {
		return app.Exit(app.ExitFindings, nil)
	}
	return nil
}
