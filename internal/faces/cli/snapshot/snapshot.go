package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type snapshotOptions struct {
	json   bool
	memory units.Bytes
}

func (a *commands) snapshotCommand() *cobra.Command {
	o := snapshotOptions{memory: 4 * units.GiB}
	c := &cobra.Command{
		Use:   "snapshot [FILE]",
		Short: "What filled the GPU: a PyTorch memory snapshot, on a page",
		Long: "Reads a snapshot that torch.cuda.memory._dump_snapshot(FILE) has written, plain, .gz or .zst, of any size and pickle protocol,\n" +
			"and tells for each device: the peak and who held it (by line of your code, by call path, by use), what training steps leave\n" +
			"behind, what is free and can't be used, every OOM, and what the file does not know. Nothing in the file is executed. A file\n" +
			"that is cut short is read as far as it goes. Exit code 3 means that there is a leak or an OOM in it. Without FILE it is the one\n" +
			"that the session keeps: of snapshot take, or of an OOM under run --record-memory. docs/snapshot.md has the rules.\n" +
			"A file of jax.profiler.save_device_memory_profile() is shown too: which lines made the live buffers.",
		Example: "  memgauge snapshot snapshot.pickle\n" +
			"  memgauge snapshot --json run7/rank3.pickle.zst\n" +
			"  memgauge snapshot diff before.pickle after.pickle\n" +
			"  ssh node7 cat snapshot.pickle | memgauge snapshot -",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.keptSnapshot(cmd.Context(), args)
			if err != nil {
				return fmt.Errorf("snapshot: %w", err)
			}
			if isJAX(path) {
				return a.jaxSnapshot(cmd.Context(), &o, path)
			}
			return a.snapshot(cmd.Context(), &o, path)
		},
	}
	c.Flags().BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	c.PersistentFlags().Var(&o.memory, "memory", "give up when reading takes more than this")
	c.AddCommand(a.snapshotQueryCommand(&o), saysCanceled(a.snapshotTablesCommand(&o)),
		saysCanceled(a.snapshotDiffCommand(&o)), saysCanceled(a.snapshotFlameCommand(&o)),
		saysCanceled(a.snapshotTimelineCommand(&o)), saysCanceled(a.snapshotStagesCommand(&o)),
		saysCanceled(a.snapshotCategoriesCommand(&o)), saysCanceled(a.snapshotExportCommand(&o)),
		a.snapshotTakeCommand(), a.snapshotRecordCommand())
	return saysCanceled(c)
}

// keptSnapshot returns the file that the command line names, else the session's last snapshot.
func (a *commands) keptSnapshot(ctx context.Context, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	t, err := a.Target(ctx)
	if err != nil {
		return "", remedy.Add(err, "name a file: memgauge snapshot FILE")
	}
	s := t.Open()
	defer s.Close()
	return s.SnapshotFile(ctx)
}

func (a *commands) snapshot(ctx context.Context, o *snapshotOptions, path string) error {
	h, bytes, err := a.readHistory(ctx, o, path)
	if err != nil {
		return fmt.Errorf("snapshot: %s: %w", path, err)
	}
	defer h.Close()
	told := snapshotDoc{SchemaVersion: 1, File: path, Bytes: bytes, Report: h.Report()}
	if err := ctx.Err(); err != nil {
		return err
	}
	out := &sink.Spool{To: a.Answer(o.json)}
	defer out.Discard()
	if o.json {
		err = doc.WriteJSON(out, told)
	} else {
		_, err = io.WriteString(out, told.Text())
	}
	if err == nil {
		err = out.Commit()
	}
	if err == nil && told.findings() {
		err = app.Exit(app.ExitFindings, nil)
	}
	return err
}

// snapshotDoc is the document of --json.
type snapshotDoc struct {
	SchemaVersion int    `json:"schema_version"`
	File          string `json:"file"`
	Bytes         int64  `json:"file_bytes"` // as read: packed, if it is
	anatomy.Report
}

func (d *snapshotDoc) findings() bool {
	for _, dev := range d.Devices {
		if len(dev.OOMs) > 0 {
			return true
		}
	}
	return d.Verdict == "leak"
}

// readHistory reads a file, or standard input for "-", and shows its progress on a terminal.
func (a *commands) readHistory(ctx context.Context, o *snapshotOptions, path string) (*anatomy.History, int64, error) {
	f, total, err := a.OpenInput(ctx, path)
	if err != nil {
		return nil, 0, openError(err)
	}
	defer f.Close()
	return a.readFrom(ctx, o, path, f, total)
}

// readKeeping is readHistory, which also writes what it reads to kept unless that is nil.
func (a *commands) readKeeping(ctx context.Context, o *snapshotOptions, path string, kept *os.File) (*anatomy.History,
	error) {
	f, total, err := a.OpenInput(ctx, path)
	if err != nil {
		return nil, openError(err)
	}
	defer f.Close()
	in := io.Reader(f)
	if kept != nil {
		in = io.TeeReader(f, kept)
	}
	h, _, err := a.readFrom(ctx, o, path, in, total)
	return h, err
}

// readFrom reads an open file, of so many bytes or 0.
func (a *commands) readFrom(ctx context.Context, o *snapshotOptions, path string, f io.Reader,
	total int64) (*anatomy.History, int64, error) {
	in := &term.Counted{Reader: f, Total: total, Line: term.NewStatusLine(a.Stderr), Name: filepath.Base(path)}
	defer in.Line.Clear()
	c, err := snapshot.ReadColumns(ctx, in, int64(o.memory))
	if err != nil {
		return nil, 0, err
	}
	h := anatomy.New(c)
	if err := ctx.Err(); err != nil { // of a file of gigabytes this takes a second
		h.Close()
		return nil, 0, err
	}
	return h, in.N, nil
}

// saysCanceled replaces the error of a command that Ctrl-C has ended by "cancelled", since the operation it interrupted
// doesn't matter.
func saysCanceled(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
			return fmt.Errorf("%s: %w", app.Called(cmd), api.ErrCanceled)
		}
		return err
	}
	return c
}

// openError leaves out the path, since the message has it already.
func openError(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return fmt.Errorf("%s: %w", e.Op, e.Err)
	}
	return err
}
