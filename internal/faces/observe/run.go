package observe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/judge/guard"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/keeper"
	"github.com/memgauge/memgauge/internal/record/session"
)

// RunOptions are the user's options of a run.
type RunOptions struct {
	Settings
	Command      []string      // the program, looked up in PATH, and its arguments; not empty
	Interval     time.Duration // of the samplers: 100 ms to 1 min
	RecordMemory bool          // of CUDA, for the snapshot when an allocation fails
	Native       string        // bytes between two samples of native memory, on average; "" for none
	Guard        GuardOptions

	Stdin, Stdout, Stderr *os.File // the command's; nil is a closed one

	Cwd string   // in which the command runs; "" is this process's own
	Env []string // added to the command's environment: NAME=VALUE

	// of a retry
	policy              *guard.Policy
	attempt             int
	asked               bool   // the script asks for the batch's size
	firstName, firstDir string // of the first try's session
}

// Bounds of the samplers' interval: a sample and the transaction that stores it take 16 ms of CPU time, and the report
// of an OOM shows the minute before it.
const (
	minInterval = 100 * time.Millisecond
	maxInterval = time.Minute
)

// plan has the checked RunOptions.
type plan struct {
	agent   agent.Options
	maxDisk units.Bytes
	path    string      // the command's program
	native  units.Bytes // 0 for none
	guard   *guard.Policy
}

func (o RunOptions) check() (plan, error) {
	var p plan
	var err error
	if p.agent, p.maxDisk, err = o.Settings.check("run"); err != nil {
		return p, err
	}
	if o.RecordMemory {
		if err := p.recordMemory(); err != nil {
			return p, err
		}
	}
	if o.Interval < minInterval || o.Interval > maxInterval {
		return p, wrongOption("run: --interval %s: not between 100ms and 1m", o.Interval)
	}
	if p.native, err = nativeInterval("run", o.Native); err != nil {
		return p, err
	}
	if p.guard = o.policy; p.guard == nil {
		if p.guard, err = o.loadGuard(); err != nil {
			return p, err
		}
	}
	if p.guard != nil {
		p.agent.Guard, p.agent.Policy = p.guard.Agent(o.Guard.DryRun), p.guard.Script()
	}
	p.agent.Binary, _ = os.Executable() // without it the Python classes search PATH
	p.path, err = lookPath(o.Command[0], o.Cwd, o.Env)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return p, notStarted(o.Command[0], err)
	}
	return p, nil
}

// A run that records keeps a quarter of its disk for snapshots: half of that for the last one, half for the next one
// while it is written.
const (
	snapshotShare = 8
	recordEntries = 100_000 // events: some 20 MB in a file
)

func (p *plan) recordMemory() error {
	each := p.maxDisk / snapshotShare
	if p.maxDisk -= 2 * each; p.maxDisk < minDisk {
		return wrongOption("run: --record-memory takes a quarter of --max-disk: it must be %s or more",
			units.Bytes(minDisk/3*4+units.MiB))
	}
	p.agent.Record = fmt.Sprintf("%d python %d", recordEntries, each)
	return nil
}

// StartError says why a command could not be started.
type StartError struct {
	Missing bool // there is no such program; else it can't be executed
	err     error
}

// Error and Unwrap give the cause.
func (e *StartError) Error() string { return e.err.Error() }
func (e *StartError) Unwrap() error { return e.err }

func notStarted(name string, err error) error {
	missing := errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	err = fmt.Errorf("run %s: %w", name, err)
	if strings.HasSuffix(name, ".py") {
		err = remedy.Add(err, "name the Python that runs it: memgauge run -- python "+name)
	}
	return &StartError{missing, err}
}

// Run is a command under observation.
type Run struct {
	session *session.Session
	cmd     *exec.Cmd
	signals chan os.Signal
	trouble error // of describing the process, which runs nevertheless
	guard   *guard.Policy
}

// Start makes a session and starts the command in it. Until Close, signals that are meant for the command don't end
// this process: Wait forwards them.
func Start(o RunOptions) (*Run, error) {
	p, err := o.check()
	if err != nil {
		return nil, err
	}
	s, env, err := o.prepare(p)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.path, o.Command[1:]...)
	cmd.Args[0] = o.Command[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	cmd.Env, cmd.Dir = env, o.Cwd
	r := &Run{session: s, cmd: cmd, signals: catchSignals(), guard: p.guard}
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, notStarted(o.Command[0], err)
	}
	start, _ := proc.New("/proc").StartTicks(cmd.Process.Pid) // 0 if it has ended already: then the session is over
	r.trouble = s.SetProcess(session.Pid{PID: cmd.Process.Pid, Start: start})
	return r, nil
}

// prepare makes the session and the command's environment.
func (o RunOptions) prepare(p plan) (*session.Session, []string, error) {
	o.noteHome()
	agentDir, note, err := installAgent()
	if err != nil {
		return nil, nil, err
	}
	if note != "" {
		o.Note(note)
	}
	library, err := installNative(p.path, p.native)
	if err != nil {
		return nil, nil, err
	}
	s, err := session.Create(session.Options{Dir: o.Dir, Name: o.Name, Command: o.Command, Cwd: o.Cwd,
		Version: o.Version, MaxDisk: int64(p.maxDisk), Interval: o.Interval, Budget: p.agent.Budget})
	if err != nil {
		return nil, nil, err
	}
	env, err := withNative(agent.Env(append(os.Environ(), o.Env...), agentDir, s.Runtime(), p.agent), s, library,
		p.native)
	return s, env, err
}

// Dir is the session's directory.
func (r *Run) Dir() string { return r.session.Dir }

// Close restores this process's own handling of signals.
func (r *Run) Close() { signal.Stop(r.signals) }

// Ended describes the end of a run.
type Ended struct {
	Session Ref
	How     string      // in a few words, such as "exit 1", "killed by SIGTERM" or "OOM kill"
	Code    int         // like a shell's: the command's own, or 128 plus the number of the signal that ended it
	Peak    units.Bytes // largest resident set of one process
	Summary api.Summary // zero if the session could not be summarized, or not yet
	Pending bool        // its collector still stores and judges what was recorded
	Guard   Guarded     // zero without a guard

	Policy *guard.Policy // of this try; nil without a guard

	// Trouble is an error of the observation, or nil. It has not affected the command.
	Trouble error
}

// Wait forwards signals and keeps a collector running until the command has ended, then has the session finished. That
// takes up to 10 s, and 10 s more after a SIGKILL, in which the collector finds out whether the kernel sent it. If ctx
// ends, the command continues, and its data are stored nevertheless.
func (r *Run) Wait(ctx context.Context) Ended {
	k, g := keepCollector(r.session), watchGuard(r.session, r.guard)
	kills := watchKills(r.cmd.Process.Pid)
	state := waitFor(r.cmd, r.signals)
	k.stop()
	end := endOf(state)
	endErr := r.session.SetEnd(end)
	sum, pending, sumErr := finish(ctx, r.session, finishTimeout)
	oom := kills.end()
	if end.Signal == "SIGKILL" {
		if end = whoKilled(r.session, end); end.OOM == "" && oom { // it was over before the collector had looked
			end.OOM = session.OOMKill
			endErr = errors.Join(endErr, r.session.SetEnd(end))
		}
	}
	guarded, guardErr := g.guarded(ctx, end)
	guarded.Trouble = g.end()
	return Ended{Session: refTo(r.session), How: end.String(), Code: codeOf(state),
		Peak: units.Bytes(max(end.Peak, sum.PeakRSS)), Summary: sum, Pending: pending,
		Guard: guarded, Policy: r.guard, Trouble: errors.Join(r.trouble, endErr, k.err, sumErr, guardErr)}
}

func endOf(state *os.ProcessState) session.End {
	ws := state.Sys().(syscall.WaitStatus)
	e := session.End{Ended: time.Now().UTC(), State: "exited", Code: codeOf(state)}
	if ws.Signaled() {
		e.State, e.Signal = "killed", unix.SignalName(ws.Signal())
	}
	if ru, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.Peak = ru.Maxrss << 10 // getrusage(2): kilobytes, of the largest process waited for
	}
	return e
}

func codeOf(state *os.ProcessState) int {
	ws := state.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// keeping keeps a collector running in the background while the command runs.
type keeping struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the last start; read after stop
}

func keepCollector(s *session.Session) *keeping {
	ctx, cancel := context.WithCancel(context.Background())
	c := &keeping{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if err := keeper.Run(ctx, s, func(err error) { c.err = err }); err != nil {
			c.err = err
		}
	}()
	return c
}

func (c *keeping) stop() {
	c.cancel()
	<-c.done
}

// Waiting for the collector to record whether the kernel's OOM killer sent a SIGKILL.
const (
	recordWait = 10 * time.Second     // how long it may take
	recordPoll = 5 * time.Millisecond // interval of the checks; the user's prompt waits for them
)

func whoKilled(s *session.Session, end session.End) session.End {
	for until := time.Now().Add(recordWait); time.Now().Before(until); time.Sleep(recordPoll) {
		if e, ok, err := s.End(); err == nil && ok && e.Recorded {
			return e
		}
	}
	return end
}
