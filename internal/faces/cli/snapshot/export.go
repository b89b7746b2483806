package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/formats/traceevent"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type exportOptions struct{ parquet, perfetto, protocol4 string }

func (a *commands) snapshotExportCommand(shared *snapshotOptions) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export FILE --parquet DIR | --perfetto OUTPUT | --protocol4 OUTPUT",
		Short: "A memory snapshot for other tools: Parquet, Perfetto, or a pickle that old viewers read",
		Long: "Writes a snapshot for other tools; several of the flags can be given at once. --parquet writes the tables of snapshot query, a\n" +
			"file each, into DIR, which is made. --perfetto writes counters, iterations and OOMs for ui.perfetto.dev, packed where OUTPUT ends\n" +
			"in .gz. --protocol4 writes the snapshot again with pickle protocol 4, and equal values: PyTorch's viewers can't read protocol 5,\n" +
			"which Python 3.14 writes. Files appear when they are whole.",
		Example: "  memgauge snapshot export snapshot.pickle --parquet tables\n" +
			"  memgauge snapshot export snapshot.pickle --perfetto trace.json.gz\n" +
			"  memgauge snapshot export snapshot.pickle --protocol4 fixed.pickle",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotExport(cmd.Context(), shared, o, args[0])
		},
	}
	f := c.Flags()
	f.StringVar(&o.parquet, "parquet", "", "write TABLE.parquet for each table into `DIR`")
	f.StringVar(&o.perfetto, "perfetto", "", "write a trace to `OUTPUT`, .json or .json.gz")
	f.StringVar(&o.protocol4, "protocol4", "", "write a pickle of protocol 4 to `OUTPUT`")
	return c
}

// check checks the flags before the file is read.
func (o exportOptions) check() error {
	switch {
	case o == (exportOptions{}):
		return remedy.Add(errors.New("nothing says what to write"),
			"give --parquet DIR, --perfetto OUTPUT or --protocol4 OUTPUT")
	case o.perfetto != "":
		return traceevent.CheckName("--perfetto", o.perfetto)
	}
	return nil
}

func (a *commands) snapshotExport(ctx context.Context, s *snapshotOptions, o exportOptions, path string) error {
	if err := o.check(); err != nil {
		return app.Usage(fmt.Errorf("snapshot export: %w", err))
	}
	kept, err := keptFor(o, path)
	if err != nil {
		return fmt.Errorf("snapshot export: %w", err)
	}
	defer kept.Close() // of nil it does nothing
	files := o.perfetto != "" || o.protocol4 != ""
	// Making the tables reads the history. The other files are written from the same history, so that the snapshot is
	// read only once; if the cache has the tables already, it is read for them alone.
	read := func(ctx context.Context) (*anatomy.History, error) {
		h, err := a.readKeeping(ctx, s, path, kept)
		if err != nil || !files {
			return h, err
		}
		if err := a.exportFiles(ctx, o, path, h, kept); err != nil {
			h.Close()
			return nil, err
		}
		files = false
		return h, nil
	}
	if o.parquet != "" {
		if err := a.exportParquet(ctx, o.parquet, path, read); err != nil {
			return fmt.Errorf("snapshot export: %w", err)
		}
	}
	if !files {
		return nil
	}
	h, err := read(ctx)
	if err != nil {
		return fmt.Errorf("snapshot export: %s: %w", path, err)
	}
	h.Close()
	return nil
}

// keptFor is where a copy of the input is kept while it is read: --protocol4 reads it twice, which a pipe can't be. nil
// if none is needed.
func keptFor(o exportOptions, path string) (*os.File, error) {
	if o.protocol4 == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); path != "-" && (err != nil || info.Mode().IsRegular() || info.IsDir()) {
		return nil, nil // reading says what is wrong
	}
	return rootdir.Anonymous("memgauge-snapshot-")
}

// exportParquet writes all tables, or none.
func (a *commands) exportParquet(ctx context.Context, dir, path string,
	read func(context.Context) (*anatomy.History, error)) error {
	var outs sink.Set
	defer outs.Discard()
	folder, err := outs.Folder(dir)
	if err != nil {
		return err
	}
	t, err := a.openTablesOf(ctx, path, read)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer t.Close()
	tables, err := t.Tables(ctx, false)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if strings.Contains(table.Name, "(") {
			continue // a function
		}
		out, err := folder.Create(rootdir.Element(table.Name) + ".parquet")
		if err != nil {
			return err
		}
		if err := t.Export(ctx, questions.Whole(table.Name), out); err != nil {
			return fmt.Errorf("table %s: %w", table.Name, err)
		}
	}
	return outs.Commit()
}

// exportFiles writes the files that are made from the history and not from the tables.
func (a *commands) exportFiles(ctx context.Context, o exportOptions, path string, h *anatomy.History,
	kept *os.File) error {
	again := func() (io.ReadCloser, error) {
		if kept == nil {
			return os.Open(path)
		}
		return io.NopCloser(io.NewSectionReader(kept, 0, math.MaxInt64)), nil
	}
	type file struct {
		name  string
		out   sink.Sink
		write func(io.Writer, *anatomy.History) error
	}
	var files []file
	for _, f := range []file{
		{name: o.perfetto, write: func(w io.Writer, h *anatomy.History) error { return h.WritePerfetto(ctx, w) }},
		{name: o.protocol4, write: func(w io.Writer, h *anatomy.History) error {
			return snapshot.WriteProtocol4(ctx, w, h.Columns, again)
		}},
	} {
		if f.name == "" {
			continue
		}
		var err error
		if f.out, err = sink.CreateFrom(f.name, path); err != nil {
			return err
		}
		defer f.out.Discard()
		files = append(files, f)
	}
	if h.Cut != nil {
		plain.Fprintf(a.Stderr, "memgauge: %s: %v; what stands before is written\n", path, h.Cut)
	}
	line := term.NewStatusLine(a.Stderr)
	defer line.Clear()
	for _, f := range files {
		out := &term.CountedOut{Writer: f.out, Step: term.ProgressStep, Line: line, What: "writing " +
			filepath.Base(f.name)}
		if err := sink.Gzip(f.name, out, func(w io.Writer) error { return f.write(w, h) }); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := f.out.Commit(); err != nil {
			return err
		}
	}
	return nil
}
