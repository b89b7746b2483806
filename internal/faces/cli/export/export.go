package export

import (
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
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/export"
	"github.com/memgauge/memgauge/internal/faces/metrics/otlp"
	"github.com/memgauge/memgauge/internal/faces/metrics/prom"
	"github.com/memgauge/memgauge/internal/formats/traceevent"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type exportOptions struct {
	perfetto, pprof, tensorboard, parquet string
	prometheus, otlp                      string
	tokenFile, token                      string
	interval, linger                      units.Duration
}

func (a *commands) exportCommand() *cobra.Command {
	o := exportOptions{interval: units.Duration(10 * time.Second), linger: units.Duration(time.Minute)}
	c := &cobra.Command{
		Use:   "export",
		Short: "A session in other tools: Prometheus, OpenTelemetry, Perfetto, pprof, TensorBoard, Parquet",
		Long: "Writes a session, live or finished, for other tools, and serves its figures to monitoring; " +
			"several flags can be given at once.\n" +
			"Files appear when they are whole. --prometheus and --otlp go on while the job runs: until Ctrl-C, " +
			"or until its last values have\n" +
			"been served for the time of --linger, or sent. Of a finished session they are served until Ctrl-C, " +
			"or sent once.\n" +
			"docs/export.md lists the metrics and shows what each viewer makes of a file.",
		Example: "  memgauge export --prometheus :9400\n" +
			"  memgauge 27891 export --otlp http://collector:4318\n" +
			"  memgauge export --perfetto run.json.gz --pprof holders.pb.gz --tensorboard runs/memory " +
			"--parquet tables",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.export(cmd.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.prometheus, "prometheus", "",
		"serve http://`ADDR`/metrics; :PORT is for this machine, whose users can all read it, other addresses must be "+
			"named in full")
	f.StringVar(&o.tokenFile, "token-file", "",
		"with --prometheus: answer only those who send the token in `FILE` (Authorization: Bearer)")
	f.StringVar(&o.otlp, "otlp", "", "send to the OpenTelemetry receiver at `URL`, such as http://127.0.0.1:4318")
	f.Var(&o.interval, "interval", "with --otlp: send every `DURATION`")
	f.Var(&o.linger, "linger", "with --prometheus: serve the last values for `DURATION` after the job has ended")
	f.StringVar(&o.perfetto, "perfetto", "", "write a trace for ui.perfetto.dev to `FILE`, .json or .json.gz")
	f.StringVar(&o.pprof, "pprof", "", "write who holds the memory to `FILE`, for go tool pprof; of a live job "+
		"a census is taken")
	f.StringVar(&o.tensorboard, "tensorboard", "", "write event files into `DIR`, a run for each process")
	f.StringVar(&o.parquet, "parquet", "", "write SCHEMA.TABLE.parquet for each table into `DIR`")
	return c
}

// minInterval is the shortest interval: the kernel's figures are not read more often.
const minInterval = time.Second

// check checks the flags before the session is opened.
func (o *exportOptions) check() (err error) {
	switch {
	case o.perfetto+o.pprof+o.tensorboard+o.parquet+o.prometheus+o.otlp == "":
		return remedy.Add(errors.New("nothing says where to"),
			"give --prometheus, --otlp, --perfetto, --pprof, --tensorboard or --parquet")
	case time.Duration(o.interval) < minInterval:
		return fmt.Errorf("--interval wants at least %s", units.Duration(minInterval))
	case o.linger < 0:
		return errors.New("--linger wants no negative time")
	}
	if o.perfetto != "" {
		if err := traceevent.CheckName("--perfetto", o.perfetto); err != nil {
			return err
		}
	}
	if o.tokenFile != "" {
		if o.prometheus == "" {
			return errors.New("--token-file is about --prometheus")
		}
		if o.token, err = app.ReadToken(o.tokenFile); err != nil {
			return err
		}
	}
	if o.prometheus != "" {
		if o.prometheus, err = prom.Address(o.prometheus); err != nil {
			return fmt.Errorf("--prometheus: %w", err)
		}
	}
	if o.otlp != "" {
		if _, err := otlp.Check(o.otlp); err != nil {
			return fmt.Errorf("--otlp: %w", err)
		}
	}
	return nil
}

func (a *commands) export(ctx context.Context, o exportOptions) error {
	if err := o.check(); err != nil {
		return app.Usage(fmt.Errorf("export: %w", err))
	}
	t, err := a.Target(ctx)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	monitoring := o.prometheus != "" || o.otlp != ""
	var served *monitor
	if monitoring { // so that an address in use is an error before files are written
		if served, err = a.monitor(ctx, t, o); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		defer served.close()
	}
	if err := ask.Retry(ctx, func() error { return a.files(ctx, t, o) }); err != nil {
		return fmt.Errorf("export: %w", whyCut(ctx, err))
	}
	if !monitoring {
		return nil
	}
	if err := served.run(ctx); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// whyCut replaces an error that follows from the end of ctx by the cause of that end.
func whyCut(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return api.ErrCanceled
	}
	return err
}

// files writes all of them, or none.
func (a *commands) files(ctx context.Context, t ask.Target, o exportOptions) error {
	w := &writing{App: a.App, ctx: ctx}
	defer w.set.Discard()
	if o.perfetto+o.pprof+o.tensorboard+o.parquet == "" {
		return nil
	}
	var err error
	if w.s, err = t.Connect(ctx); err != nil {
		return err
	}
	defer w.s.Close()
	for _, one := range []struct {
		path  string
		write func(string) error
	}{
		{o.perfetto, w.file(gzipped(o.perfetto, export.Perfetto))}, {o.pprof, w.file(export.Pprof)},
		{o.tensorboard, w.directory(export.TensorBoard)}, {o.parquet, w.directory(export.Parquet)},
	} {
		if one.path == "" {
			continue
		}
		if err := one.write(one.path); err != nil {
			return err
		}
	}
	return w.commit()
}

// writing is a set of files that are being written.
type writing struct {
	*app.App
	ctx   context.Context
	s     api.Session
	set   sink.Set
	names []string
}

type (
	toFile      func(context.Context, api.Session, io.Writer) (notes []string, err error)
	toDirectory func(context.Context, api.Session, export.Create) (notes []string, err error)
)

func (w *writing) file(write toFile) func(string) error {
	return func(path string) error {
		out, err := sink.Create(path)
		if err != nil {
			return err
		}
		w.set.Add(out)
		notes, err := write(w.ctx, w.s, out)
		return w.tell(path, notes, err)
	}
}

func (w *writing) directory(write toDirectory) func(string) error {
	return func(dir string) error {
		folder, err := w.set.Folder(dir)
		if err != nil {
			return err
		}
		notes, err := write(w.ctx, w.s, folder.Create)
		return w.tell(dir, notes, err)
	}
}

// tell notes how the writing of a file went.
func (w *writing) tell(path string, notes []string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	w.names = append(w.names, path)
	for _, n := range notes {
		plain.Fprintf(w.Stderr, "memgauge: %s: %s\n", path, n)
	}
	return nil
}

func (w *writing) commit() error {
	if err := w.set.Commit(); err != nil {
		return err
	}
	for _, name := range w.names {
		plain.Fprintf(w.Stderr, "memgauge: wrote %s\n", name)
	}
	return nil
}

// gzipped writes through gzip where the file's name says so.
func gzipped(name string, write toFile) toFile {
	return func(ctx context.Context, s api.Session, w io.Writer) (notes []string, err error) {
		err = sink.Gzip(name, w, func(to io.Writer) error {
			notes, err = write(ctx, s, to)
			return err
		})
		return notes, err
	}
}
