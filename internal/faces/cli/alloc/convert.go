package alloc

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/snapshotdb"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type allocConvertOptions struct{ device int }

func (a *commands) allocConvertCommand() *cobra.Command {
	var o allocConvertOptions
	c := &cobra.Command{
		Use:   "convert FROM TO",
		Short: "Turn an allocator's history into another format",
		Long: "Reads FROM, which may be a PyTorch snapshot, a trace, a log of RMM or JSON lines, and writes TO in the format of its ending:\n" +
			".pickle (PyTorch's viewers and mosaic read it), .csv (RMM's log), .trace, .jsonl or .parquet. See docs/formats/trace.md.",
		Example: "  memgauge alloc convert rmm.csv rmm.pickle\n" +
			"  memgauge alloc convert snapshot.pickle events.parquet",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.allocConvert(cmd.Context(), o, args[0], args[1])
		},
	}
	c.Flags().IntVar(&o.device, "device", -1, "the device `N`, where TO has one and FROM several")
	c.Flags().Lookup("device").DefValue = "0" // what pflag takes for no default worth printing
	return c
}

func (a *commands) allocConvert(ctx context.Context, o allocConvertOptions, from, to string) error {
	write, err := converter(ctx, to, o.device)
	if err != nil {
		return app.Usage(fmt.Errorf("alloc convert: %w", err))
	}
	out, err := sink.CreateFrom(to, from)
	if err != nil {
		return fmt.Errorf("alloc convert: %w", err)
	}
	defer out.Discard()
	s, _, err := snapshot.ReadFile(from)
	if err != nil {
		return fmt.Errorf("alloc convert: %w", err)
	}
	if err := write(out, s); err != nil {
		return fmt.Errorf("alloc convert: %w", err)
	}
	return out.Commit()
}

// converter returns the function that writes the format of a file's extension.
func converter(ctx context.Context, to string, device int) (func(io.Writer, *snapshot.Snapshot) error, error) {
	one := func(write func(io.Writer, *snapshot.Snapshot, int) error) func(io.Writer, *snapshot.Snapshot) error {
		return func(w io.Writer, s *snapshot.Snapshot) (err error) {
			d := device
			if d < 0 {
				if d, err = onlyDevice(s.WithAllocations()); err != nil {
					return err
				}
			}
			return write(w, s, d)
		}
	}
	switch strings.ToLower(filepath.Ext(to)) {
	case ".pickle", ".pkl":
		return snapshot.WritePickle, nil
	case ".csv":
		return one(snapshot.WriteRMM), nil
	case ".jsonl", ".ndjson":
		return snapshot.WriteLines, nil
	case ".trace":
		return one(func(w io.Writer, s *snapshot.Snapshot, device int) error {
			t, err := s.Trace(device)
			if err != nil {
				return err
			}
			return snapshot.WriteTrace(w, t)
		}), nil
	case ".parquet":
		return func(w io.Writer, s *snapshot.Snapshot) error { return snapshotdb.WriteParquet(ctx, w, s) }, nil
	}
	return nil, remedy.Add(fmt.Errorf("%s: no format has this ending", to),
		"end the name in .pickle, .csv, .trace, .jsonl or .parquet")
}
