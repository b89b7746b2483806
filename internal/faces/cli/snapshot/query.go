package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/internal/faces/snapshotdb"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
	"github.com/memgauge/memgauge/internal/record/sink"
)

func (a *commands) snapshotQueryCommand(shared *snapshotOptions) *cobra.Command {
	var o ask.QueryOptions
	c := &cobra.Command{
		Use:   "query FILE SQL",
		Short: "Ask a memory snapshot in SQL",
		Long: "Runs one reading statement over a snapshot's tables: events, blocks, segments, segment_blocks, stacks, frames, annotations,\n" +
			"iterations, settings, and live_at(SEQ), the blocks that were live after an event. memgauge snapshot tables FILE describes them.\n" +
			"The first question makes the tables, and keeps them in $MEMGAUGE_HOME/cache for the next. - reads SQL from standard input.",
		Example: "  memgauge snapshot query snapshot.pickle \"SELECT site, sum(requested) AS bytes FROM blocks WHERE free_seq IS NULL GROUP BY ALL ORDER BY bytes DESC\"\n" +
			"  memgauge snapshot query snapshot.pickle \"SELECT category, sum(requested) FROM live_at((SELECT arg_max(seq, live_after) FROM events)) GROUP BY 1\"\n" +
			"  memgauge snapshot query -o long.parquet snapshot.pickle \"SELECT * FROM blocks WHERE lifetime_us > 1e6\"",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotQuery(cmd.Context(), shared, o, args[0], args[1])
		},
	}
	o.AddFlags(c)
	return c
}

// snapshotQuery checks all arguments before it reads the file.
func (a *commands) snapshotQuery(ctx context.Context, s *snapshotOptions, o ask.QueryOptions, path, sql string) error {
	if path == "-" && sql == "-" {
		return app.Usage(
			errors.New("snapshot query: only one of the snapshot and the statement can be standard input"))
	}
	q, err := ask.QueryRequest(ctx, a.App, o, sql)
	if err != nil {
		return err
	}
	ctx, cancel := o.Limit(ctx)
	defer cancel()
	out, err := ask.QuerySink(a.App, o.Output)
	if err != nil {
		return fmt.Errorf("snapshot query: %w", err)
	}
	defer out.Discard()
	t, err := a.openTables(ctx, s, path)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("snapshot %w", ask.WhyCut(ctx, err))
		}
		return fmt.Errorf("snapshot query: %s: %w", path, err)
	}
	defer t.Close()
	if err = ask.RunQuery(ctx, t, q, out); err == nil {
		return nil
	}
	if errors.Is(err, snapshotdb.ErrNoTable) {
		err = remedy.Add(err, "memgauge snapshot tables "+path+" lists the tables")
	}
	return fmt.Errorf("snapshot %w", err) // it begins "query: "
}

// openTables opens the tables of a snapshot's file, and prints remarks about them.
func (a *commands) openTables(ctx context.Context, s *snapshotOptions, path string) (*snapshotdb.Tables, error) {
	return a.openTablesOf(ctx, path, func(ctx context.Context) (*anatomy.History, error) {
		h, _, err := a.readHistory(ctx, s, path)
		return h, err
	})
}

// openTablesOf is openTables; it calls read only if the cache doesn't have the tables.
func (a *commands) openTablesOf(ctx context.Context, path string, read func(context.Context) (*anatomy.History,
	error)) (
	*snapshotdb.Tables, error) {
	line := term.NewStatusLine(a.Stderr)
	t, err := snapshotdb.Open(ctx, snapshotdb.Source{
		Path: path,
		Read: func(ctx context.Context) (*anatomy.History, error) {
			h, err := read(ctx)
			if err == nil {
				line.Show("making the tables of %s", filepath.Base(path))
			}
			return h, err
		},
		Making: func(share float64) {
			line.Show("making the tables of %s: %.0f %%", filepath.Base(path), 100*share)
		},
		Note: func(text string) { plain.Fprintf(a.Stderr, "memgauge: %s\n", text) },
	})
	line.Clear()
	if err != nil {
		return nil, openError(err)
	}
	if t.Cut != "" {
		plain.Fprintf(a.Stderr, "memgauge: %s: %s; the tables have what stands before\n", path, t.Cut)
	}
	return t, nil
}

func (a *commands) snapshotTablesCommand(shared *snapshotOptions) *cobra.Command {
	var o ask.TablesOptions
	c := &cobra.Command{
		Use:   "tables FILE [TABLE…]",
		Short: "List the tables of a memory snapshot, or describe their columns",
		Long: "Lists what memgauge snapshot query can ask: table, rows, columns, what it holds. With TABLE, every column of it with its type,\n" +
			"meaning and unit.",
		Example: "  memgauge snapshot tables snapshot.pickle\n" +
			"  memgauge snapshot tables snapshot.pickle blocks live_at",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Names = args[1:]
			return a.snapshotTables(cmd.Context(), shared, o, args[0])
		},
	}
	o.AddFlags(c)
	return c
}

func (a *commands) snapshotTables(ctx context.Context, s *snapshotOptions, o ask.TablesOptions, path string) error {
	t, err := a.openTables(ctx, s, path)
	if err != nil {
		return fmt.Errorf("snapshot tables: %s: %w", path, err)
	}
	defer t.Close()
	out := &sink.Spool{To: a.Answer(o.JSON())}
	defer out.Discard()
	if err := ask.RunTables(ctx, t, o, term.TerminalWidth(a.Stdout), out); err != nil {
		if len(o.Names) > 0 {
			err = remedy.Add(err, "memgauge snapshot tables "+path+" lists them")
		}
		return fmt.Errorf("snapshot %w", err) // it begins "tables: "
	}
	return out.Commit()
}
