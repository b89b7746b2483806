package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/observe"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

// Exit codes that shells and env(1) give for a command that could not be started.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
)

func (a *commands) runCommand() *cobra.Command {
	o := observe.RunOptions{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	var quiet bool
	var hub node.Settings
	c := &cobra.Command{
		Use:         "run [flags] -- CMD…",
		Annotations: app.AboutNoSession(),
		Short:       "Start a command under observation",
		Long: "Starts CMD under observation. Its input, output, exit code, signals and terminal are its own. Every Python process of the job\n" +
			"that lives long enough is observed, whatever started it, unless it is told to ignore PYTHONPATH (python -E, -I) or site (-S).",
		Example: "  memgauge run -- python train.py --epochs 3\n" +
			"  memgauge run --name resnet -- torchrun --nproc-per-node 2 train.py\n" +
			"  memgauge run --guard guide -- python train.py\n" +
			"  memgauge run --guard safe_training.yaml --on-oom retry --max-retries 3 -- python train.py\n" +
			"  memgauge run --quiet --budget 0.5% -- ./train.sh",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Command = args
			if err := nativeSize(cmd, o.Native); err != nil {
				return err
			}
			return a.run(cmd.Context(), o, hub, quiet)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the command's name is the command's
	a.observeFlags(f, &o.Settings)
	f.BoolVar(&quiet, "quiet", false, "print nothing at the end")
	f.BoolVar(&o.RecordMemory, "record-memory", false,
		"record the history of CUDA memory (PyTorch 2.1 or newer), and keep the snapshot when an allocation fails")
	nativeFlag(f, &o.Native, "sample native memory (malloc, mmap) with its C and Python stacks, one block in so many "+
		"`BYTES` on average (docs/native.md)")
	f.StringVar(&o.Guard.Policy, "guard", "",
		"act on memory by `POLICY`: guide, or a YAML file such as safe_training.yaml (docs/guard.md)")
	f.BoolVar(&o.Guard.DryRun, "dry-run", false, "with --guard: tell what would be done, and do nothing")
	f.StringVar(&o.Guard.OnOOM, "on-oom", "",
		"with --guard, when memory has run out: retry with half the batch, or stop (default: what the policy says)")
	f.IntVar(&o.Guard.MaxRetries, "max-retries", 0, "with --on-oom retry: at most so `MANY` (default 3)")
	f.DurationVar(&o.Interval, "interval", time.Second,
		"how often processes, cgroup, host and GPUs are sampled: 100ms to 1m")
	hubFlags(f, &hub)
	app.Words(c, "allow", "eval", "record", "snapshot")
	app.Offer(c, "trace", traces...)
	app.Offer(c, "on-oom", "retry", "stop")
	return c
}

// hubFlags say which hub may ask this run (docs/fleet.md).
func hubFlags(f *pflag.FlagSet, o *node.Settings) {
	f.StringVar(&o.Join, "hub", os.Getenv("MEMGAUGE_HUB"),
		"be a node of the hub at `ADDRESS` host:port while the command runs, for this session")
	f.StringVar(&o.Token, "token-file", os.Getenv("MEMGAUGE_TOKEN_FILE"), "`FILE` with the hub's join token")
	f.StringVar(&o.CA, "ca", "", "`FILE` with the authorities of the hub's certificate, where it is one of yours")
	f.StringVar(&o.Job, "job", "",
		"`NAME` of the job (default from Slurm, torchrun or Kubernetes, else the session's name)")
	f.StringVar(&o.Name, "node", "", "`NAME` of this node (default the host's)")
	f.BoolVar(&o.Shared, "shared-secrets", bus.SharedSecrets(), bus.SharedHint)
	f.BoolVar(&o.Insecure, "insecure", false, "without TLS and token, as a hub with --insecure wants it")
	f.StringSliceVar(&o.Allow, "allow", nil,
		"what the hub may do to this run: eval, record, snapshot; eval means all three")
}

// traces are the values of --trace.
var traces = []string{"auto", "all", "off"}

// observeFlags adds the flags that run and attach share.
func (a *commands) observeFlags(f *pflag.FlagSet, o *observe.Settings) {
	o.Version, o.Note = app.Version, func(note string) { plain.Fprintf(a.Stderr, "memgauge: %s\n", note) }
	f.StringVar(&o.Dir, "session", "", "keep the session in `DIR`, which must be empty or not exist")
	f.StringVar(&o.Name, "name", "", "name of the session")
	app.Check(f, "name", observe.CheckName)
	f.StringVar(&o.Budget, "budget", "1%", "share of the training's time that observing may take")
	f.StringVar(&o.Trace, "trace", "auto", "steps whose modules are traced: auto (as the budget allows), all, off")
	f.StringVar(&o.MaxDisk, "max-disk", "2GiB", "bound of the session's database; old detail is thinned first")
}

// nativeFlag adds --native, which run and attach share; alone it takes a size of its own.
func nativeFlag(f *pflag.FlagSet, size *string, usage string) {
	f.StringVar(size, "native", "", usage)
	f.Lookup("native").NoOptDefVal = "128KiB"
}

// nativeSize refuses --native= without a size.
func nativeSize(cmd *cobra.Command, size string) error {
	if size == "" && cmd.Flags().Changed("native") {
		return app.Usage(fmt.Errorf("%s: --native= lacks a size: --native alone takes one of its own", cmd.Name()))
	}
	return nil
}

func (a *commands) run(ctx context.Context, o observe.RunOptions, hub node.Settings, quiet bool) error {
	join, err := a.joins(hub)
	if err != nil {
		return err
	}
	if quiet {
		ctx = ask.Telling(ctx, func(string) {})
	}
	for {
		end, err := a.runOnce(ctx, o, join, quiet)
		if err != nil {
			return err
		}
		next, said, again := o.Retry(end)
		if said != "" && !quiet {
			plain.Fprintf(a.Stderr, "memgauge: guard: %s\n", said)
		}
		if again && ctx.Err() == nil {
			o = next
			continue
		}
		switch {
		case end.Code != 0:
			return app.Exit(end.Code, nil)
		case end.Policy != nil && !end.Guard.Rescued():
			return app.Exit(app.ExitFindings, nil)
		}
		return nil
	}
}

func (a *commands) runOnce(ctx context.Context, o observe.RunOptions, join *node.Options, quiet bool) (observe.Ended,
	error) {
	r, err := observe.Start(o)
	if err != nil {
		return observe.Ended{}, exitOfStart(optionMistake(err))
	}
	defer r.Close()
	leave := a.attend(ctx, r.Dir(), join)
	end := r.Wait(ctx)
	leave()
	if !quiet {
		a.printEnd(end)
	}
	return end, nil
}

// joins checks what was said about a hub; nil where nothing was.
func (a *commands) joins(hub node.Settings) (*node.Options, error) {
	if hub.Join == "" {
		return nil, withoutHub(hub)
	}
	home, err := ask.Home()
	if err != nil {
		return nil, err
	}
	hub.Version = app.Version
	o, err := hub.Options(home, os.Getenv)
	if err != nil {
		return nil, app.Usage(fmt.Errorf("run: %w", err))
	}
	return &o, nil
}

// withoutHub refuses what is said about a hub where there is none: who names a job believes that it is in one.
func withoutHub(hub node.Settings) error {
	for _, x := range []struct {
		given      bool
		flag, does string
	}{
		{len(hub.Allow) > 0, "--allow", "says what a hub may do"},
		{hub.Job != "", "--job", "names the job to a hub"},
		{hub.Name != "", "--node", "names the node to a hub"},
	} {
		if x.given {
			return app.Usage(remedy.Add(fmt.Errorf("run: %s %s, and there is no hub", x.flag, x.does),
				"--hub names it; --name names the session"))
		}
	}
	return nil
}

// attend answers the hub for the session until leave. The command never notices: what goes wrong stands in node.log.
func (a *commands) attend(ctx context.Context, dir string, o *node.Options) (leave func()) {
	if o == nil {
		return func() {}
	}
	f, err := rootdir.AppendFile(filepath.Join(dir, "node.log"))
	if err != nil {
		plain.Fprintf(a.Stderr, "memgauge: the hub can't ask this run: %v\n", err)
		return func() {}
	}
	o.Log = slog.New(slog.NewTextHandler(observe.Log(f), nil))
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.Close()
		if err := node.Attend(ctx, dir, *o); err != nil {
			o.Log.Error("the hub can't ask this run", "why", err)
			plain.Fprintf(a.Stderr, "memgauge: the hub can't ask this run: %v\n", err)
		}
	}()
	return func() { cancel(); <-done }
}

// takeOver answers a hub until leave in place of a run that was killed: its session goes on, and so do its rows.
func (a *commands) takeOver(ctx context.Context, dir string) (leave func()) {
	home, err := ask.Home()
	if err != nil {
		return func() {}
	}
	f, err := rootdir.AppendFile(filepath.Join(dir, "node.log"))
	if err != nil {
		return func() {}
	}
	log := slog.New(slog.NewTextHandler(observe.Log(f), nil))
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.Close()
		if err := node.TakeOver(ctx, dir, home, app.Version, log); err != nil {
			log.Error("the hub can't ask this session", "why", err)
		}
	}()
	return func() { cancel(); <-done }
}

// optionMistake gives an error about a wrong option the exit code of usage errors.
func optionMistake(err error) error {
	var wrong *observe.OptionError
	if errors.As(err, &wrong) {
		return app.Usage(err)
	}
	return err
}

func exitOfStart(err error) error {
	var failed *observe.StartError
	switch {
	case !errors.As(err, &failed):
		return err
	case failed.Missing:
		return app.Exit(exitNotFound, err)
	}
	return app.Exit(exitNotRunnable, err)
}

// printEnd prints the end of a run on stderr: first what went wrong, then a summary in at most three lines.
func (a *commands) printEnd(end observe.Ended) {
	if end.Trouble != nil {
		plain.Fprintf(a.Stderr, "memgauge: %v\n", end.Trouble)
	}
	a.printGuard(end)
	sum := end.Summary
	if sum.Verdict != "" {
		plain.Fprintf(a.Stderr, "memgauge: %s\n", sum.Verdict)
	}
	left := ""
	if sum.LeftOut > 0 {
		left = fmt.Sprintf("; %s rows left out for want of disk (memgauge.drops)", units.Count(sum.LeftOut))
	}
	steps := fmt.Sprintf(", %s steps seen", units.Count(sum.Steps))
	if end.Pending {
		steps = ""
		plain.Fprintf(a.Stderr,
			"memgauge: what was recorded is still being stored and judged; memgauge %s leak waits\n",
			end.Session.Endpoint)
	}
	plain.Fprintf(a.Stderr, "memgauge: %s%s, peak %s resident in one process%s\n", end.How, steps, end.Peak, left)
	plain.Fprintf(a.Stderr, "memgauge: session %s; ask it: memgauge %s query \"SHOW ALL TABLES\"\n", end.Session.Name,
		end.Session.Endpoint)
}

// printGuard says what the guard has done, where it has done anything.
func (a *commands) printGuard(end observe.Ended) {
	if end.Policy == nil {
		return
	}
	g := end.Guard
	say := func(format string, args ...any) { plain.Fprintf(a.Stderr, "memgauge: guard: "+format+"\n", args...) }
	if g.Actions > 0 {
		say("%d actions to free memory, %d helped", g.Actions, g.Helped)
	}
	for _, what := range g.LeftOut {
		say("%s", what)
	}
	for _, what := range g.Failed {
		say("RESCUE FAILED: %s", what)
	}
	if g.OOM && g.Stopped == "" {
		say("RESCUE FAILED: memory ran out before the training was stopped")
	}
	if g.Stopped != "" {
		say("%s", g.Stopped)
	}
	if len(g.Unread) > 0 {
		say("nothing asked for %s (memgauge.policy())", strings.Join(g.Unread, ", "))
	}
	if g.Trouble != nil {
		say("%v", g.Trouble)
	}
}
