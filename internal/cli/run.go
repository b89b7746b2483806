package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/keeper"
	"github.com/memgauge/memgauge/internal/proc"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/trust"
	"github.com/memgauge/memgauge/internal/units"
)

// runOptions are what the user may say about a run.
type runOptions struct {
	dir     string
	name    string
	quiet   bool
	budget  string
	trace   string
	maxDisk string

	interval time.Duration
	record   bool
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run [flags] -- CMD…",
		Short: "Start a command under observation",
		Long: "Starts CMD under observation. Its input, output, exit code, signals and terminal are its own. Every Python process of the job\n" +
			"that lives long enough is observed, whatever started it, unless it is told to ignore PYTHONPATH (python -E, -I) or site (-S).",
		Example: "  memgauge run -- python train.py --epochs 3\n" +
			"  memgauge run --name resnet -- torchrun --nproc-per-node 2 train.py\n" +
			"  memgauge run --quiet --budget 0.5% -- ./train.sh",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), o, args) },
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the command's name is the command's
	f.StringVar(&o.dir, "session", "", "keep the session in `DIR`, which must be empty or not exist")
	f.StringVar(&o.name, "name", "", "name of the session")
	f.BoolVar(&o.quiet, "quiet", false, "print nothing at the end")
	f.StringVar(&o.budget, "budget", "1%", "share of the training's time that observing may take")
	f.StringVar(&o.trace, "trace", "auto", "steps whose modules are traced: auto (as the budget allows), all, off")
	f.StringVar(&o.maxDisk, "max-disk", "2GiB", "bound of the session's database; old detail is thinned first")
	f.BoolVar(&o.record, "record-memory", false,
		"record the history of CUDA memory (PyTorch 2.1 or newer), and keep the snapshot when an allocation fails")
	f.DurationVar(&o.interval, "interval", time.Second,
		"how often processes, cgroup, host and GPUs are sampled: 100ms to 1m")
	return c
}

// plan is a runOptions that was checked.
type plan struct {
	agent   agent.Options
	maxDisk units.Bytes
	path    string // the command's program
}

func (o runOptions) check(args []string) (plan, error) {
	var p plan
	var err error
	if p.agent, p.maxDisk, err = checkObserving("run", o.budget, o.trace, o.maxDisk); err != nil {
		return p, err
	}
	if o.record {
		if err := p.recordMemory(); err != nil {
			return p, err
		}
	}
	if o.interval < 100*time.Millisecond || o.interval > time.Minute {
		return p, usageError{fmt.Errorf("run: --interval %s: not between 100ms and 1m", o.interval)}
	}
	p.agent.Binary, _ = os.Executable() // without it the Python classes search PATH
	p.path, err = exec.LookPath(args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return p, notStarted(args[0], err)
	}
	return p, nil
}

// A run that records keeps a quarter of its disk for the snapshot: half of that for the one that there is, half for the
// newer one while it is written.
const (
	snapshotShare = 8
	recordEntries = 100_000 // events: some 20 MB in a file
)

func (p *plan) recordMemory() error {
	each := p.maxDisk / snapshotShare
	if p.maxDisk -= 2 * each; p.maxDisk < minDisk {
		return usageError{fmt.Errorf("run: --record-memory takes a quarter of --max-disk: it must be %s or more",
			units.Bytes(minDisk/3*4+units.MiB))}
	}
	p.agent.Record = fmt.Sprintf("%d python %d", recordEntries, each)
	return nil
}

// checkObserving reads the flags that `run` and `attach` share.
func checkObserving(command, budget, trace, maxDisk string) (agent.Options, units.Bytes, error) {
	share, err := units.ParseFraction(budget)
	if err != nil || share <= 0 || share > 1 {
		return agent.Options{}, 0, usageError{fmt.Errorf("%s: --budget %q: not a share between 0 and 100%%", command,
			budget)}
	}
	switch trace {
	case "auto", "all", "off":
	default:
		return agent.Options{}, 0, usageError{fmt.Errorf("%s: --trace %q: not auto, all or off", command, trace)}
	}
	size, err := units.ParseBytes(maxDisk)
	if err != nil || size < minDisk {
		return agent.Options{}, 0, usageError{fmt.Errorf("%s: --max-disk %q: not a size of at least %s", command,
			maxDisk, minDisk)}
	}
	return agent.Options{Budget: float64(share), Trace: trace}, size, nil
}

// minDisk is what DuckDB itself, its log included, can be held under.
const minDisk units.Bytes = 64 << 20

// notStarted gives the exit codes that shells and env(1) give.
func notStarted(name string, err error) error {
	code := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = 127
	}
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	err = fmt.Errorf("run %s: %w", name, err)
	if strings.HasSuffix(name, ".py") {
		err = remedy.Add(err, "name the Python that runs it: memgauge run -- python "+name)
	}
	return &exitError{code, err}
}

func (a *app) run(ctx context.Context, o runOptions, args []string) error {
	p, err := o.check(args)
	if err != nil {
		return err
	}
	s, env, err := a.prepare(o, p, args)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = env
	signals := catchSignals()
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return notStarted(args[0], err)
	}
	start, _ := proc.New("/proc").StartTicks(cmd.Process.Pid) // gone already: the session is then over at once
	metaErr := s.SetProcess(session.Pid{PID: cmd.Process.Pid, Start: start})
	watch := watchCollector(s)
	state := waitFor(cmd, signals)
	watch.stop()
	end := endOf(state)
	endErr := s.SetEnd(end)
	sum, sumErr := finish(ctx, s)
	if end.Signal == "SIGKILL" {
		end = whoKilled(s, end)
	}
	if !o.quiet {
		a.printEnd(s, end, sum, errors.Join(metaErr, endErr, watch.err, sumErr))
	}
	return exitOf(state)
}

// prepare makes the session and the command's environment.
func (a *app) prepare(o runOptions, p plan, args []string) (*session.Session, []string, error) {
	a.sayHome(o.dir)
	agentDir, note, err := installAgent()
	if err != nil {
		return nil, nil, err
	}
	if note != "" {
		fmt.Fprintln(a.stderr, "memgauge: "+note)
	}
	s, err := session.Create(session.Options{Dir: o.dir, Name: o.name, Command: args, Version: Version,
		MaxDisk: int64(p.maxDisk), Interval: o.interval})
	if err != nil {
		return nil, nil, err
	}
	return s, agent.Env(os.Environ(), agentDir, s.Runtime(), p.agent), nil
}

// sayHome tells where sessions go when that is not where the user has said; with --session it doesn't matter.
func (a *app) sayHome(dir string) {
	if note := session.HomeNote(); note != "" && dir == "" {
		fmt.Fprintln(a.stderr, "memgauge: "+note)
	}
}

// installAgent unpacks the agent's files into the first place where nobody else can change them; the note says why that
// is not where sessions are.
func installAgent() (dir, note string, err error) {
	home, err := session.Home()
	if err != nil {
		return "", "", err
	}
	places, err := session.Places()
	if err != nil {
		return "", "", err
	}
	var why error
	for _, place := range places[slices.Index(places, home):] {
		dir, err := agent.Install(place)
		switch {
		case err == nil && why != nil:
			return dir, fmt.Sprintf("%v; the agent's files are in %s", why, dir), nil
		case err == nil:
			return dir, "", nil
		case why == nil && !errors.Is(err, trust.ErrOthers):
			if remedy.Of(err) == "" {
				err = remedy.Add(err, "set MEMGAUGE_HOME to a writable directory")
			}
			return "", "", err
		case why == nil:
			why = err
		}
	}
	return "", "", remedy.Add(why, "set MEMGAUGE_HOME to a directory that only you can write")
}

// maxSignals are as many as can come while the loop that passes them on waits for a processor.
const maxSignals = 256

// catchSignals keeps run alive while the command decides what a signal means to it. A signal that was ignored when we
// came (nohup) stays so, for the command too.
func catchSignals() chan os.Signal {
	ch := make(chan os.Signal, maxSignals)
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		if forwarded(sig) && !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
	return ch
}

const lastSignal = 64 // SIGRTMAX

// forwarded tells which signals mean something to the command when somebody sends them to us. Not: what can't be
// caught; what is about us alone (our children, a write to a closed pipe, our faults, profiling); stops; what C
// libraries send to their own threads, and SIGURG, which Go's runtime sends to its own many times a second
// (runtime/signal_unix.go, sigPreempt).
func forwarded(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN,
		syscall.SIGTTOU,
		syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT,
		syscall.SIGSYS,
		syscall.SIGPROF, syscall.SIGURG, 32, 33, 34:
		return false
	}
	return true
}

// waitFor waits for the command and passes signals on that it has not got itself.
func waitFor(cmd *exec.Cmd, signals <-chan os.Signal) *os.ProcessState {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // the state says it
	}()
	for {
		select {
		case sig := <-signals:
			if !fromTerminal(sig) {
				_ = cmd.Process.Signal(sig) // an error means that it is gone
			}
		case <-done:
			return cmd.ProcessState
		}
	}
}

// fromTerminal reports whether a signal most likely came from the terminal's keyboard or its closing: then the kernel
// gave it to the whole foreground process group, the command included, and passing it on would deliver it twice.
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT && sig != syscall.SIGHUP && sig != syscall.SIGWINCH {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}

func endOf(state *os.ProcessState) session.End {
	ws := state.Sys().(syscall.WaitStatus)
	e := session.End{Ended: time.Now().UTC(), State: "exited", Code: ws.ExitStatus()}
	if ws.Signaled() {
		e.State, e.Code, e.Signal = "killed", 128+int(ws.Signal()), unix.SignalName(ws.Signal())
	}
	if ru, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.Peak = ru.Maxrss << 10 // getrusage(2): kilobytes, of the largest process waited for
	}
	return e
}

func exitOf(state *os.ProcessState) error {
	ws := state.Sys().(syscall.WaitStatus)
	switch {
	case ws.Signaled():
		return &exitError{code: 128 + int(ws.Signal())}
	case ws.ExitStatus() != 0:
		return &exitError{code: ws.ExitStatus()}
	}
	return nil
}

// watcher keeps a collector going while the command runs.
type watcher struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the last start; read after stop
}

func watchCollector(s *session.Session) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		if err := keeper.Run(ctx, s, func(err error) { w.err = err }); err != nil {
			w.err = err
		}
	}()
	return w
}

func (w *watcher) stop() {
	w.cancel()
	<-w.done
}

// finishTimeout bounds what the end of a run waits for: the rings of a hundred processes drain in less.
const finishTimeout = 20 * time.Second

// finish asks the collector to drain the rings and to sum up.
func finish(ctx context.Context, s *session.Session) (api.Summary, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	return ask.Finish(ctx, s)
}

// recordWait is how long the collector may take to say whether the kernel killed the job for want of memory.
const recordWait = 10 * time.Second

func whoKilled(s *session.Session, end session.End) session.End {
	for until := time.Now().Add(recordWait); time.Now().Before(until); time.Sleep(finishPoll) {
		if e, ok, err := s.End(); err == nil && ok && e.Recorded {
			return e
		}
	}
	return end
}

const finishPoll = 5 * time.Millisecond

// printEnd says on stderr, in at most three lines, what a user wants to know when a run has ended.
func (a *app) printEnd(s *session.Session, e session.End, sum api.Summary, err error) {
	if err != nil {
		fmt.Fprintf(a.stderr, "memgauge: %v\n", err)
	}
	if sum.Verdict != "" {
		fmt.Fprintf(a.stderr, "memgauge: %s\n", sum.Verdict)
	}
	peak := units.Bytes(max(e.Peak, sum.PeakRSS))
	left := ""
	if sum.LeftOut > 0 {
		left = fmt.Sprintf("; %s rows left out for want of disk (memgauge.drops)", units.Count(sum.LeftOut))
	}
	fmt.Fprintf(a.stderr, "memgauge: %s, %s steps seen, peak %s resident in one process%s\n", e, units.Count(sum.Steps),
		peak, left)
	fmt.Fprintf(a.stderr, "memgauge: session %s; ask it: memgauge %s query \"SHOW ALL TABLES\"\n", s.Meta.Name,
		endpointOf(s))
}

// endpointOf is how to name the session in a command.
func endpointOf(s *session.Session) string {
	home, err := session.Home()
	if err == nil && filepath.Dir(filepath.Dir(s.Dir)) == home {
		return s.Meta.Name
	}
	return s.Dir
}
