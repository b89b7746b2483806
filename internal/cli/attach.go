package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/attach"
	"github.com/memgauge/memgauge/internal/keeper"
	"github.com/memgauge/memgauge/internal/proc"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/units"
	"github.com/memgauge/memgauge/internal/wire"
)

// attachOptions are what the user may say about an attach.
type attachOptions struct {
	dir, name      string
	budget, trace  string
	maxDisk        string
	timeout        string
	children, json bool
	force          bool
}

func (a *app) attachCommand() *cobra.Command {
	var o attachOptions
	c := &cobra.Command{
		Use:   "attach PID",
		Short: "Observe a training that runs already",
		Long: "Brings the agent into a running Python process, without a restart and without a debugger, and leaves a collector in the\n" +
			"background. From the next step on everything works as after memgauge run; what happened before is not known. memgauge detach\n" +
			"takes the agent out again. What is done to the process, step by step: docs/attach.md.",
		Example: "  memgauge attach 27891\n" +
			"  memgauge attach --name resnet --children $(pgrep -o torchrun)\n" +
			"  memgauge attach 27891 && memgauge 27891 query \"SELECT * FROM python.steps\"",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.attach(cmd.Context(), o, args[0]) },
	}
	f := c.Flags()
	f.StringVar(&o.dir, "session", "", "keep the session in `DIR`, which must be empty or not exist")
	f.StringVar(&o.name, "name", "", "name of the session")
	f.StringVar(&o.budget, "budget", "1%", "share of the training's time that observing may take")
	f.StringVar(&o.trace, "trace", "auto", "steps whose modules are traced: auto (as the budget allows), all, off")
	f.StringVar(&o.maxDisk, "max-disk", "2GiB", "bound of the session's database; old detail is thinned first")
	f.StringVar(&o.timeout, "timeout", "10s", "give up when there is no way in for `DURATION`")
	f.BoolVar(&o.children, "children", false, "the Python processes that descend from PID too: ranks and workers")
	f.BoolVar(&o.force, "force", false,
		"also a process whose seccomp filters are not known, or forbid what is needed: one may kill it")
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	return c
}

// entered is what became of one process.
type entered struct {
	pid    int
	result attach.Result
}

func (a *app) attach(ctx context.Context, o attachOptions, arg string) error {
	settings, maxDisk, err := checkObserving("attach", o.budget, o.trace, o.maxDisk)
	if err != nil {
		return err
	}
	timeout, err := units.ParseDuration(o.timeout)
	if err != nil || timeout <= 0 {
		return usageError{fmt.Errorf("attach: --timeout %q: not a duration such as 10s", o.timeout)}
	}
	pid, err := pidArgument("attach", arg)
	if err != nil {
		return err
	}
	if s, err := session.Observed(pid); err == nil && !o.children {
		return a.alreadyObserved(pid, s.Meta.Name, o.json)
	}
	a.sayHome(o.dir)
	j := attaching{settings: settings, timeout: time.Duration(timeout), force: o.force}
	if err := j.begin(o, pid, int64(maxDisk)); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	err = j.all(ctx, pid, o.children)
	if len(j.entered) == 0 {
		if rerr := j.session.Remove(); rerr != nil {
			err = errors.Join(err, rerr)
		}
		if j.observed != "" && err == nil {
			return a.alreadyObserved(pid, j.observed, o.json)
		}
		return fmt.Errorf("attach: %w", err)
	}
	for _, failure := range j.failures {
		fmt.Fprintf(a.stderr, "memgauge: attach: %v; not observed\n", failure)
	}
	if err := keeper.Spawn(j.session); err != nil {
		fmt.Fprintf(a.stderr, "memgauge: %v; the next command that asks the session tries again\n", err)
	}
	return a.sayAttached(j, o.json)
}

func pidArgument(command, arg string) (int, error) {
	pid, err := strconv.ParseUint(arg, 10, 31)
	if err != nil || pid == 0 {
		return 0, usageError{fmt.Errorf("%s: %q: not a PID", command, arg)}
	}
	return int(pid), nil
}

func (a *app) alreadyObserved(pid int, where string, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, attachJSON{SchemaVersion: jsonVersion, Session: where, Observed: true,
			Processes: []attachedJSON{}})
	}
	_, err := fmt.Fprintf(a.text(), "process %d is observed already, in session %s\n", pid, where)
	return err
}

// attaching is one attach under way.
type attaching struct {
	settings agent.Options
	timeout  time.Duration
	force    bool
	session  *session.Session
	entered  []entered
	failures []error // of processes beside the first
	observed string  // where an agent was found that belongs to a session which we don't see
}

// begin makes the session. It is removed again if no process can be entered.
func (j *attaching) begin(o attachOptions, pid int, maxDisk int64) error {
	start, err := proc.New("/proc").StartTicks(pid)
	if err != nil {
		return remedy.Add(fmt.Errorf("process %d: %w", pid, attach.ErrNoProcess),
			"memgauge list shows observed ones, pgrep -a python all that run Python")
	}
	j.session, err = session.Create(session.Options{Dir: o.dir, Name: o.name, Command: commandLine(pid),
		Version: Version, MaxDisk: maxDisk, Process: session.Pid{PID: pid, Start: start}})
	return err
}

// commandLine is the process's, for the session's name and for list.
func commandLine(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return []string{fmt.Sprintf("pid %d", pid)}
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
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
	r := agent.Request{Options: j.settings, PID: pid, Start: start}
	if sees(pid, j.session.Runtime()) {
		r.Runtime, r.Folder = j.session.Runtime(), agentFolder(pid)
	}
	result, err := attach.Inject(ctx, pid, agent.Source(r), attach.Options{Timeout: j.timeout, Force: j.force})
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
		if err := j.handRing(ctx, session.Door{Pid: session.Pid{PID: pid, Start: start}, FD: reply.Door}); err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	j.entered = append(j.entered, entered{pid, result})
	return nil
}

// handRing gives a process that does not see the runtime directory a ring of ours.
func (j *attaching) handRing(ctx context.Context, d session.Door) error {
	door, err := agent.OpenDoor(d.PID, d.Start, d.FD)
	if err != nil {
		return err
	}
	defer door.Close()
	ring, err := j.makeRing(d.Pid)
	if err != nil {
		return fmt.Errorf("make its ring: %w", err)
	}
	defer ring.Close()
	if err := door.HandRing(ctx, ring); err != nil {
		return fmt.Errorf("hand it a ring: %w", err)
	}
	return j.session.AddDoor(d)
}

// makeRing makes a file, so that the records outlive the process and us as all others do; for a process of another
// user, who could fill our disk through it, memory of a size that is fixed, which a reference in the file's place leads
// to.
func (j *attaching) makeRing(p session.Pid) (ring *os.File, err error) {
	path := filepath.Join(j.session.Rings(), fmt.Sprintf("%d.%d.1%s", p.PID, p.Start, wire.RingSuffix))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o600); err != nil { // whatever the umask has taken away
		return nil, errors.Join(err, f.Close())
	}
	if effectiveUID(p.PID) == os.Geteuid() {
		return f, nil
	}
	defer f.Close()
	ring, reference, err := wire.SealedRing()
	if err != nil {
		return nil, remedy.Add(err, "attach with the rights of the process's own user: sudo -u")
	}
	if _, err := f.Write(reference); err != nil {
		return nil, errors.Join(err, ring.Close())
	}
	return ring, nil
}

// agentFolder is where the process finds the agent's files, "" if it can't: then they travel with the source.
func agentFolder(pid int) string {
	dir, _, err := installAgent()
	if err != nil || !sees(pid, dir) {
		return ""
	}
	return dir
}

// sees tells whether a process can use a directory of ours by its path, and goes by the same process numbers.
func sees(pid int, dir string) bool {
	ours, err1 := os.Readlink("/proc/self/ns/pid")
	theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err1 != nil || err2 != nil || ours != theirs {
		return false
	}
	here, err1 := os.Stat(dir)
	there, err2 := os.Stat(fmt.Sprintf("/proc/%d/root%s", pid, dir))
	if err1 != nil || err2 != nil || !os.SameFile(here, there) {
		return false
	}
	return effectiveUID(pid) == os.Geteuid()
}

// effectiveUID is -1 where it can't be known.
func effectiveUID(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	_, rest, _ := strings.Cut(string(b), "\nUid:")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return -1
	}
	uid, err := strconv.Atoi(fields[1]) // real, effective, saved, file system (proc(5))
	if err != nil {
		return -1
	}
	return uid
}

// The JSON of attach is documented in docs/cli-json.md.
type attachJSON struct {
	SchemaVersion int            `json:"schema_version"`
	Session       string         `json:"session"`
	Dir           string         `json:"dir"`
	Observed      bool           `json:"already_observed"`
	Processes     []attachedJSON `json:"processes"`
}

type attachedJSON struct {
	PID     int     `json:"pid"`
	Python  string  `json:"python"`
	Way     string  `json:"way"`
	Doing   string  `json:"doing"`
	Stopped float64 `json:"stopped_us"`
}

func (a *app) sayAttached(j attaching, asJSON bool) error {
	s := j.session
	if asJSON {
		doc := attachJSON{SchemaVersion: jsonVersion, Session: s.Meta.Name, Dir: s.Dir, Processes: []attachedJSON{}}
		for _, e := range j.entered {
			doc.Processes = append(doc.Processes, attachedJSON{e.pid, e.result.Python, string(e.result.Way),
				e.result.Doing,
				float64(e.result.Stopped.Nanoseconds()) / 1e3})
		}
		return writeJSON(a.stdout, doc)
	}
	for _, e := range j.entered {
		fmt.Fprintf(a.text(), "attached to %d (Python %s): stopped for %s\n", e.pid, e.result.Python,
			units.Duration(e.result.Stopped.Round(time.Microsecond)))
	}
	_, err := fmt.Fprintf(a.text(), "session %s; steps count from now on, what happened before is not known\n",
		endpointOf(s))
	return err
}
