package observe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/probe/attach"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/keeper"
	"github.com/memgauge/memgauge/internal/record/session"
)

// AttachOptions are the user's options of an attach.
type AttachOptions struct {
	Settings
	PID      int
	Children bool   // the Python processes that descend from PID too
	Timeout  string // how long to wait for a way into a process, such as "10s"
	Native   string // sample native memory, once in so many bytes, such as "512KiB"; "" for not at all
	Force    bool   // enter also where a seccomp filter may kill the process
	Within   Within // the process asks for it itself; nil if not
}

// Within has a process run source that it asked for, and returns what that left in `result`.
type Within func(ctx context.Context, source string) (string, error)

// Attached is the result of an attach.
type Attached struct {
	Session   Ref
	Observed  bool // it was observed already: nothing was done, only the session's name is known
	Processes []Entered
	Native    bool     // native memory is sampled from now on
	Unseen    []Unseen // and what samples do not see
	Failed    []error  // of further Python processes, which are not observed
	NoKeeper  error    // why no collector was started, nil if one was; the next command that needs one tries again
}

// Entered is a process that the agent was brought into.
type Entered struct {
	PID     int
	Python  string        // its version
	Way     string        // the way in
	Doing   string        // what the process was doing, such as "main thread in select(2)"
	Stopped time.Duration // how long one of its threads stood still for it
}

// Attach brings the agent into a running Python process and leaves a collector in the background. When no process could
// be entered, it removes the session again.
func Attach(ctx context.Context, o AttachOptions) (Attached, error) {
	settings, maxDisk, err := o.Settings.check("attach")
	if err != nil {
		return Attached{}, err
	}
	timeout, err := checkTimeout("attach", o.Timeout)
	if err != nil {
		return Attached{}, err
	}
	interval, err := nativeInterval("attach", o.Native)
	if err != nil {
		return Attached{}, err
	}
	j := attaching{settings: settings, entry: attach.Options{Timeout: timeout, Force: o.Force}, within: o.Within,
		native: sampling{interval: interval, force: o.Force}}
	if s, err := session.Observed(o.PID); err == nil && !o.Children {
		return j.already(ctx, s, o.PID)
	}
	o.noteHome()
	if err := j.begin(o, int64(maxDisk)); err != nil {
		return Attached{}, fmt.Errorf("attach: %w", err)
	}
	err = j.all(ctx, o.PID, o.Children)
	if len(j.entered) == 0 {
		return j.undo(err)
	}
	return Attached{Session: refTo(j.session), Processes: j.entered, Native: interval > 0, Unseen: j.native.unseen,
		Failed: j.failures, NoKeeper: keeper.Spawn(j.session)}, nil
}

// NameFrom makes a session's name of a text that may not be one; "" where nothing is left of it.
func NameFrom(text string) string {
	name := strings.TrimLeft(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("/=:", r) {
			return '-'
		}
		return r
	}, strings.ToValidUTF8(text, "-")), "-.")
	if session.CheckName(name) != nil {
		return ""
	}
	return name
}

func observedIn(name string) Attached { return Attached{Session: Ref{Name: name}, Observed: true} }

// attaching is the state of an attach.
type attaching struct {
	settings agent.Options
	entry    attach.Options
	within   Within // nil: by attach
	native   sampling
	session  *session.Session
	entered  []Entered
	failures []error // of processes beside the first
	observed string  // runtime directory, without its path, of an agent whose session can't be seen from here
}

// already is the result for a process that is observed: its native memory may be sampled from now on.
func (j *attaching) already(ctx context.Context, s *session.Session, pid int) (Attached, error) {
	err := j.native.admit(s, pid)
	if err == nil {
		err = j.native.begin(ctx, s, pid)
	}
	if err != nil {
		return Attached{}, fmt.Errorf("attach %w", err)
	}
	done := observedIn(s.Meta.Name)
	done.Native, done.Unseen = j.native.interval > 0, j.native.unseen
	return done, nil
}

// begin makes the session.
func (j *attaching) begin(o AttachOptions, maxDisk int64) error {
	start, err := proc.New("/proc").StartTicks(o.PID)
	if err != nil {
		return remedy.Add(fmt.Errorf("process %d: %w", o.PID, attach.ErrNoProcess),
			"memgauge list shows observed ones, pgrep -a python all that run Python")
	}
	j.session, err = session.Create(session.Options{Dir: o.Dir, Name: o.Name, Command: commandLine(o.PID),
		Version: o.Version, MaxDisk: maxDisk, Process: session.Pid{PID: o.PID, Start: start},
		Budget: j.settings.Budget})
	return err
}

// undo removes the session when no process was entered; err says why none was.
func (j *attaching) undo(err error) (Attached, error) {
	if rerr := j.session.Remove(); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if j.observed != "" && err == nil {
		return observedIn(j.observed), nil
	}
	return Attached{}, fmt.Errorf("attach: %w", err)
}

// all enters the process and, if asked for, its Python descendants. Of those, one that can't be entered doesn't stop
// the rest.
func (j *attaching) all(ctx context.Context, pid int, children bool) error {
	if !children {
		return j.enter(ctx, pid)
	}
	pids, err := proc.New("/proc").Tree(pid)
	if err != nil {
		return err
	}
	var first error
	for _, p := range pids {
		if _, err := session.Observed(p); err == nil {
			continue // forked by one that we have just entered, or of another session
		}
		err := j.enter(ctx, p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && p == pid {
			first = err
		}
		if err != nil && !errors.Is(err, attach.ErrNotPython) && !errors.Is(err, attach.ErrNoProcess) {
			j.failures = append(j.failures, err)
		}
	}
	if len(j.entered) == 0 && first == nil {
		first = remedy.Add(fmt.Errorf("process %d and its descendants are observed already", pid),
			"memgauge list shows their session")
	}
	return first
}

// enter brings the agent into one process and waits until it has reported in.
func (j *attaching) enter(ctx context.Context, pid int) error {
	start, err := proc.New("/proc").StartTicks(pid)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, attach.ErrNoProcess)
	}
	if err := j.native.admit(j.session, pid); err != nil {
		return err
	}
	r := agent.Request{Options: j.settings, PID: pid, Start: start}
	if sees(pid, j.session.Runtime()) {
		r.Runtime, r.Folder = j.session.Runtime(), agentFolder(pid)
	}
	result, err := j.bring(ctx, pid, agent.Source(r))
	if err != nil {
		return err
	}
	reply, err := agent.ParseReply(result.Value)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if reply.Observed {
		j.observed = filepath.Base(reply.Runtime)
		return nil
	}
	if reply.Door >= 0 {
		if err := j.handRing(ctx, session.DoorAddress{Pid: session.Pid{PID: pid, Start: start},
			FD: reply.Door}); err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	if err := j.native.begin(ctx, j.session, pid); err != nil {
		return errors.Join(err, leave(ctx, j.session, pid))
	}
	j.entered = append(j.entered, Entered{PID: pid, Python: result.Python, Way: string(result.Way),
		Doing: result.Doing, Stopped: result.Stopped})
	return nil
}

// bring has the process run the source.
func (j *attaching) bring(ctx context.Context, pid int, source string) (attach.Result, error) {
	if j.within == nil {
		return attach.Inject(ctx, pid, source, j.entry)
	}
	value, err := j.within(ctx, source)
	return attach.Result{Value: value, Way: "within"}, err
}

// handRing gives a process that does not see the runtime directory a ring of ours.
func (j *attaching) handRing(ctx context.Context, d session.DoorAddress) error {
	door, err := agent.OpenDoor(d.PID, d.Start, d.FD)
	if err != nil {
		return err
	}
	defer door.Close()
	ring, err := makeRing(j.session.Rings(), d.Pid)
	if err != nil {
		return fmt.Errorf("make its ring: %w", err)
	}
	defer ring.Close()
	if err := door.HandRing(ctx, ring); err != nil {
		return fmt.Errorf("hand it a ring: %w", err)
	}
	return j.session.AddDoor(d)
}
