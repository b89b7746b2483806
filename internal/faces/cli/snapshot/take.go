package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// liveOptions select a command's trainer and bound its time.
type liveOptions struct {
	app.Which
	timeout units.Duration
}

func (o *liveOptions) AddFlags(c *cobra.Command, timeout time.Duration) {
	o.timeout = units.Duration(timeout)
	f := c.Flags()
	f.Var(&o.timeout, "timeout", "give up after a `DURATION`")
	f.IntVar(&o.Rank, "rank", -1, "the trainer of rank `N`")
	f.Lookup("rank").DefValue = "0" // what pflag takes for no default worth printing
	f.IntVar(&o.Pid, "pid", 0, "the process `P`")
}

type takeOptions struct {
	liveOptions
	output string
}

func (a *commands) snapshotTakeCommand() *cobra.Command {
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
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.snapshotTake(cmd.Context(), o) },
	}
	o.AddFlags(c, time.Minute)
	c.Flags().StringVarP(&o.output, "output", "o", "", "write to `FILE`")
	c.MarkFlagsMutuallyExclusive("rank", "pid")
	return c
}

func (a *commands) snapshotTake(ctx context.Context, o takeOptions) error {
	t, err := a.Target(ctx)
	if err != nil {
		return err
	}
	var out sink.Sink
	if o.output != "" {
		if out, err = sink.Create(o.output); err != nil {
			return fmt.Errorf("snapshot take: %w", err)
		}
		defer out.Discard()
	}
	session := t.Open()
	defer session.Close()
	q := api.SnapshotRequest{Choice: o.Choice(t), Timeout: time.Duration(o.timeout)}
	r, err := takeSnapshot(ctx, session, q, out, o.output)
	if err != nil {
		return fmt.Errorf("snapshot take: %w", err)
	}
	plain.Fprintf(a.Stderr, "memgauge: %s of %s, pid %d\n", units.Bytes(r.Bytes), t.Name(), r.Process.PID)
	if r.History == "no" {
		fmt.Fprintln(a.Stderr,
			"memgauge: no history is recorded: the file has the state only; memgauge snapshot record --on begins one")
	}
	_, err = fmt.Fprintln(a.Stdout, cmp.Or(o.output, r.Path))
	return err
}

// takeSnapshot has the trainer write a snapshot to out, whose name is given, or into the session if out is nil.
func takeSnapshot(ctx context.Context, s api.Session, q api.SnapshotRequest, out sink.Sink,
	name string) (api.SnapshotReply,
	error) {
	if out == nil {
		return s.Snapshot(ctx, q, nil)
	}
	r, err := s.Snapshot(ctx, q, namedWriter{out, name})
	if err == nil {
		err = out.Commit()
	}
	return r, err
}

// namedWriter adds the file's name to errors of writing.
type namedWriter struct {
	io.Writer
	name string
}

func (n namedWriter) Write(b []byte) (int, error) {
	written, err := n.Writer.Write(b)
	if err != nil {
		err = fmt.Errorf("write %s: %w", n.name, sink.Cause(err))
	}
	return written, err
}

type recordOptions struct {
	liveOptions
	on, off bool
	entries int
	stacks  string
}

func (a *commands) snapshotRecordCommand() *cobra.Command {
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
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.snapshotRecord(cmd.Context(), o) },
	}
	o.AddFlags(c, 10*time.Second)
	f := c.Flags()
	f.BoolVar(&o.on, "on", false, "begin")
	f.BoolVar(&o.off, "off", false, "end")
	f.IntVar(&o.entries, "max-entries", 100_000, "keep the newest `N` events")
	f.StringVar(&o.stacks, "stacks", "python", "`KIND` of stacks: python, or all, with C++ frames")
	app.Offer(c, "stacks", "python", "all")
	f.BoolVar(&o.All, "all", false, "every trainer of the session")
	c.MarkFlagsMutuallyExclusive("on", "off")
	c.MarkFlagsMutuallyExclusive("rank", "pid", "all")
	return c
}

func (a *commands) snapshotRecord(ctx context.Context, o recordOptions) error {
	q := api.RecordRequest{On: o.on, Entries: o.entries, Stacks: o.stacks, Timeout: time.Duration(o.timeout)}
	err := q.Check()
	if !o.on && !o.off {
		err = errors.New("--on or --off is missing")
	}
	if err != nil {
		return app.Usage(fmt.Errorf("snapshot record: %w", err))
	}
	t, err := a.Target(ctx)
	if err != nil {
		return err
	}
	session := t.Open()
	defer session.Close()
	q.Choice = o.Choice(t)
	r, err := session.Record(ctx, q)
	if err != nil {
		return fmt.Errorf("snapshot record: %w", err)
	}
	says := "no history is recorded any more"
	if o.on {
		says = fmt.Sprintf("the history is recorded: the newest %s events, stacks %s", units.Count(int64(o.entries)),
			o.stacks)
	}
	var failed []error
	for _, p := range r.Processes {
		if p.Error != nil {
			failed = append(failed, p.Error.Unpack())
			continue
		}
		fmt.Fprintf(a.Text(), "%s: %s\n", p.Process.Label(), says)
	}
	if len(failed) > 0 {
		return remedy.Add(fmt.Errorf("snapshot record: %w", errors.Join(failed...)), recordCan)
	}
	if o.on {
		plain.Fprintf(a.Stderr,
			"memgauge: each allocation takes about 1 µs more, each event up to several KiB of host memory; memgauge snapshot take\n"+
				"memgauge: writes the file into %s; memgauge snapshot record --off ends it\n", t.Dir())
	}
	return nil
}

const recordCan = "a program that uses CUDA and PyTorch 2.1 or newer can be told; " +
	"memgauge run --record-memory records from its start"
