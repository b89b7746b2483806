package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/units"
	"github.com/memgauge/memgauge/internal/wire"
)

// liveOptions say which trainer a command is for, and how long it may take.
type liveOptions struct {
	evalOptions
	timeout units.Duration
}

func (o *liveOptions) addFlags(c *cobra.Command, timeout time.Duration) {
	o.timeout = units.Duration(timeout)
	f := c.Flags()
	f.Var(&o.timeout, "timeout", "give up after a `DURATION`")
	f.IntVar(&o.rank, "rank", -1, "the trainer of rank `N`")
	f.Lookup("rank").DefValue = "0" // what pflag takes for no default worth printing
	f.IntVar(&o.pid, "pid", 0, "the process `P`")
}

type takeOptions struct {
	liveOptions
	output string
}

func (a *app) snapshotTakeCommand() *cobra.Command {
	var o takeOptions
	c := &cobra.Command{
		Use:   "take",
		Short: "Have the live trainer write its memory snapshot",
		Long: "The trainer writes what torch.cuda.memory._dump_snapshot writes: its CUDA allocator's blocks, and their history as far as that is\n" +
			"recorded (snapshot record). It goes to -o FILE, else into the session, which keeps the newest; the path is printed. The training\n" +
			"waits while Python's lock is held: about 15 s for a million events.",
		Example: "  memgauge snapshot take\n" +
			"  memgauge 27891 snapshot take -o now.pickle\n" +
			"  memgauge snapshot $(memgauge snapshot take)",
		Args: alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.snapshotTake(cmd.Context(), o) },
	}
	o.addFlags(c, time.Minute)
	c.Flags().StringVarP(&o.output, "output", "o", "", "write to `FILE`")
	c.MarkFlagsMutuallyExclusive("rank", "pid")
	return c
}

func (a *app) snapshotTake(ctx context.Context, o takeOptions) error {
	t, err := a.target(ctx)
	if err != nil {
		return err
	}
	chosen, err := o.choose(t.Processes(), t)
	if err != nil {
		return fmt.Errorf("snapshot take: %w", remedy.Add(err, "memgauge snapshot FILE reads one that was written"))
	}
	var out sink
	if o.output != "" {
		if out, err = create(o.output); err != nil {
			return fmt.Errorf("snapshot take: %w", err)
		}
		defer out.discard()
	}
	file, history, err := takeSnapshot(ctx, t.Session, chosen[0], time.Duration(o.timeout))
	if err != nil {
		return fmt.Errorf("snapshot take: %w", err)
	}
	defer file.discard()
	path, size, err := keepTaken(t.Session, chosen[0], file, out, o.output)
	if err != nil {
		return fmt.Errorf("snapshot take: %w", err)
	}
	fmt.Fprintf(a.stderr, "memgauge: %s of %s, pid %d\n", units.Bytes(size), t.Session.Meta.Name, chosen[0].PID)
	if history == "no" {
		fmt.Fprintln(a.stderr,
			"memgauge: no history is recorded: the file has the state only; memgauge snapshot record --on begins one")
	}
	_, err = fmt.Fprintln(a.stdout, path)
	return err
}

// keepTaken puts the file where it shall lie: into out, else into the session.
func keepTaken(s *session.Session, p session.Process, file snapshotFile, out sink, name string) (path string,
	size int64, err error) {
	info, err := os.Stat(file.path)
	if err != nil {
		return "", 0, err
	}
	if out == nil {
		err = file.keep()
		return s.SnapshotPath(p.PID), info.Size(), err
	}
	f, err := os.Open(file.path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	if _, err := io.Copy(out, f); err != nil {
		return "", 0, fmt.Errorf("write %s: %w", name, cause(err))
	}
	return name, info.Size(), out.commit()
}

// takeSnapshot has a process write one into a folder of its own within the session, whence it can be moved. history
// says whether the file has one: yes, no or unknown.
func takeSnapshot(ctx context.Context, s *session.Session, p session.Process, timeout time.Duration) (file snapshotFile,
	history string, err error) {
	dir, err := os.MkdirTemp(s.Dir, "taking-") // 0700
	if err != nil {
		return snapshotFile{}, "", err
	}
	path := filepath.Join(dir, "snapshot.pickle")
	quoted, err := json.Marshal(path) // a JSON string is a Python string
	if err == nil {
		// The allocator writes its snapshot under a lock of its own, whatever else runs.
		history, err = askRecord(ctx, p, fmt.Sprintf("dump(%s)", quoted), wire.PlaceBeside, timeout)
	}
	if err == nil {
		err = os.Chmod(path, 0o600) // Python made it with the trainer's umask
	}
	if err != nil {
		os.RemoveAll(dir)
		return snapshotFile{}, "", err
	}
	return snapshotFile{path, func() error { return s.KeepSnapshot(p.PID, path) }, func() { os.RemoveAll(dir) }},
		history, nil
}

// askRecord has the agent call one of the functions of gauges.history, and returns what that gives as text.
func askRecord(ctx context.Context, p session.Process, call string, place wire.Place, timeout time.Duration) (string,
	error) {
	var said bytes.Buffer
	// binds no name in the program
	code := `print(__import__("memgauge._agent.gauges.history", fromlist=["on"]).` + call + ")"
	r := evalIn(ctx, wire.Eval{Timeout: timeout, Code: code, Place: place, Own: true}, p, &said, &said)
	if r.Exception != "" {
		lines := strings.Split(strings.TrimSpace(r.Exception), "\n")
		return "", remedy.Add(fmt.Errorf("snapshot of %s: %s", label(p), lines[len(lines)-1]), recordHint)
	}
	if err := r.failure(timeout); err != nil {
		return "", remedy.Add(err, "--timeout 5m gives it more time")
	}
	return strings.TrimSpace(said.String()), nil
}

type recordOptions struct {
	liveOptions
	on, off bool
	entries int
	stacks  string
}

// maxEntries is what PyTorch is asked to keep at most, which takes some gigabytes of the host's memory.
const maxEntries = 10_000_000

func (a *app) snapshotRecordCommand() *cobra.Command {
	var o recordOptions
	c := &cobra.Command{
		Use:   "record --on | --off",
		Short: "Have the live trainer record the history of its CUDA memory, or end that",
		Long: "Switches torch.cuda.memory._record_memory_history on or off in the trainer, between two bytecodes of its main thread (docs/eval.md).\n" +
			"Each allocation and each free then takes about 1 µs more (the stack of 30 Python frames 0.6 µs, with --stacks all 0.8), and each\n" +
			"event that is kept up to several KiB of the host's memory; the oldest go first. snapshot take writes the history into a file.\n" +
			"What is allocated already has no stack.",
		Example: "  memgauge snapshot record --on\n" +
			"  memgauge 27891 snapshot record --on --max-entries 1000000 --stacks all\n" +
			"  memgauge snapshot record --off",
		Args: alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.snapshotRecord(cmd.Context(), o) },
	}
	o.addFlags(c, 10*time.Second)
	f := c.Flags()
	f.BoolVar(&o.on, "on", false, "begin")
	f.BoolVar(&o.off, "off", false, "end")
	f.IntVar(&o.entries, "max-entries", 100_000, "keep the newest `N` events")
	f.StringVar(&o.stacks, "stacks", "python", "`KIND` of stacks: python, or all, with C++ frames")
	f.BoolVar(&o.all, "all", false, "every trainer of the session")
	c.MarkFlagsMutuallyExclusive("on", "off")
	c.MarkFlagsMutuallyExclusive("rank", "pid", "all")
	return c
}

func (o *recordOptions) check() error {
	switch {
	case !o.on && !o.off:
		return errors.New("--on or --off is missing")
	case o.entries < 1 || o.entries > maxEntries:
		return fmt.Errorf("--max-entries %d: not between 1 and %s", o.entries, units.Count(maxEntries))
	case o.stacks != "python" && o.stacks != "all":
		return fmt.Errorf("--stacks %q: not python or all", o.stacks)
	}
	return nil
}

func (a *app) snapshotRecord(ctx context.Context, o recordOptions) error {
	if err := o.check(); err != nil {
		return usageError{fmt.Errorf("snapshot record: %w", err)}
	}
	t, err := a.target(ctx)
	if err != nil {
		return err
	}
	chosen, err := o.choose(t.Processes(), t)
	if err != nil {
		return fmt.Errorf("snapshot record: %w", err)
	}
	call, says := "off()", "no history is recorded any more"
	if o.on {
		call = fmt.Sprintf("on(%d, %q)", o.entries, o.stacks)
		says = fmt.Sprintf("the history is recorded: the newest %s events, stacks %s", units.Count(int64(o.entries)),
			o.stacks)
	}
	var failed []error
	for _, p := range chosen {
		if _, err := askRecord(ctx, p, call, wire.PlaceMain, time.Duration(o.timeout)); err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(a.stdout, "%s: %s\n", label(p), says)
	}
	if len(failed) > 0 {
		return remedy.Add(fmt.Errorf("snapshot record: %w", errors.Join(failed...)), recordCan)
	}
	if o.on {
		fmt.Fprintf(a.stderr,
			"memgauge: each allocation takes about 1 µs more, each event up to several KiB of host memory; memgauge snapshot take\n"+
				"memgauge: writes the file into %s; memgauge snapshot record --off ends it\n", t.Session.Dir)
	}
	return nil
}

const recordCan = "a program that uses CUDA and PyTorch 2.1 or newer can be told; memgauge run --record-memory records from its start"
