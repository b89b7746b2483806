// Package lake holds the command about a fleet's lake and its parts.
package lake

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/trino"
)

// commands are those of the package, with what all commands share.
type commands struct{ *app.App }

// Commands makes them.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	parent := &cobra.Command{
		Use:   "lake",
		Short: "Keep a fleet's lake: what it holds, merging, retention, Trino",
		Long: "A lake is Parquet in a directory or at s3://BUCKET/PREFIX: the rows of many machines, by table, date\n" +
			"and hour. It is asked as lake=WHERE: memgauge lake=/data/lake query \"…\". For S3 the environment\n" +
			"has AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where it is not Amazon's, AWS_ENDPOINT_URL.",
		Annotations: app.AboutNoSession(),
	}
	for _, sub := range []*cobra.Command{c.statusCommand(), c.mergeCommand(), c.trinoCommand()} {
		sub.Annotations = app.AboutNoSession()
		parent.AddCommand(sub)
	}
	return []*cobra.Command{parent}
}

func (a *commands) statusCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "status WHERE",
		Short:   "List the jobs of a lake: hours, files, size",
		Example: "  memgauge lake status /data/lake\n  memgauge lake status s3://training/lake --json",
		Args:    where,
		RunE: func(c *cobra.Command, args []string) error {
			list, err := lake.StatusOf(c.Context(), args[0])
			if err != nil {
				return fmt.Errorf("lake status: %w", err)
			}
			if asJSON {
				out := json.NewEncoder(a.Stdout)
				out.SetIndent("", "  ")
				return out.Encode(struct {
					Version int           `json:"schema_version"`
					Jobs    []lake.Status `json:"jobs"`
				}{1, list})
			}
			return a.printStatus(list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON (docs/cli-json.md)")
	return c
}

func (a *commands) printStatus(list []lake.Status) error {
	w := tabwriter.NewWriter(a.Text(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tTABLES\tHOURS\tFILES\tUNMERGED\tSIZE\tFIRST HOUR\tLAST HOUR")
	const form = "2006-01-02 15:00"
	for _, s := range list {
		plain.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", s.Job, s.Tables, s.Hours, s.Files, s.Unmerged,
			units.Bytes(s.Bytes), s.First.Format(form), s.Last.Format(form))
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "(no jobs)")
	}
	return w.Flush()
}

// keepOptions are the bounds of a lake.
type keepOptions struct {
	maxAge units.Duration
	max    units.Bytes
	grace  units.Duration
}

func (a *commands) mergeCommand() *cobra.Command {
	o := keepOptions{grace: units.Duration(10 * time.Minute)}
	c := &cobra.Command{
		Use:   "merge WHERE",
		Short: "Merge the hours that are over, and give up what is beyond the bounds",
		Long: "Makes one sorted file of each hour that is over, which the lake's writer does by itself, and removes\n" +
			"what such files have replaced. With --max-age or --max-size the oldest hours are given up. A directory\n" +
			"that another process writes is refused.",
		Example: "  memgauge lake merge /data/lake\n  memgauge lake merge /data/lake --max-age 720h --max-size 500GiB",
		Args:    where,
		RunE:    func(c *cobra.Command, args []string) error { return a.merge(c, o, args[0]) },
	}
	f := c.Flags()
	f.Var(&o.maxAge, "max-age", "give up hours older than a `DURATION` such as 720h (default never)")
	f.Lookup("max-age").DefValue = "0"
	f.Var(&o.max, "max-size", "give up the oldest hours beyond a `SIZE` such as 500GiB (default none)")
	f.Lookup("max-size").DefValue = "0"
	f.Var(&o.grace, "grace", "how long after its end an hour is merged: clocks differ, and nodes catch up")
	return c
}

func (a *commands) merge(c *cobra.Command, o keepOptions, where string) error {
	if o.maxAge < 0 || o.grace < 0 {
		return app.Usage(errors.New("lake merge: a duration is below 0"))
	}
	if _, err := lake.StatusOf(c.Context(), where); err != nil { // a writer would make a directory that is misspelt
		return fmt.Errorf("lake merge: %w", err)
	}
	w, err := lake.New(c.Context(), lake.Options{Location: where, Grace: max(1, time.Duration(o.grace)),
		MaxAge: time.Duration(o.maxAge), MaxBytes: int64(o.max)})
	if err != nil {
		return fmt.Errorf("lake merge: %w", err)
	}
	r, err := w.Maintain(c.Context())
	aside, more := w.Aside()
	for _, name := range aside {
		plain.Fprintf(a.Stderr, "memgauge: set aside in the lake: %s\n", name)
	}
	if more > 0 {
		plain.Fprintf(a.Stderr, "memgauge: and %d others before\n", more)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("lake merge: %w", err)
	}
	fmt.Fprintf(a.Text(), "merged %d files into %d hours, removed %d replaced files, gave up %d hours\n", r.Files,
		r.Merged, r.Removed, r.GivenUp)
	fmt.Fprintf(a.Text(), "the lake has %s in %d hours\n", units.Bytes(r.Bytes), r.Hours)
	return nil
}

func (a *commands) trinoCommand() *cobra.Command {
	server, seen := trino.DefaultServer, ""
	every := units.Duration(0)
	c := &cobra.Command{
		Use:   "trino WHERE",
		Short: "Define a lake's tables in a Trino server, and keep their partitions in step",
		Long: "Defines tables and views under the names that a session has, in the catalog lake (deploy/trino), and\n" +
			"registers the hours that the lake has now. It is to be run again after new hours and merges: --every\n" +
			"does so until it is interrupted.",
		Example: "  memgauge lake trino /data/lake --seen-as local:///\n" +
			"  memgauge lake trino s3://training/lake --server http://trino:8080 --every 1m",
		Args: where,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := trino.New(server)
			if err != nil {
				return app.Usage(fmt.Errorf("lake trino: --server: %w", err))
			}
			return a.sync(c, client, trino.Sync{Lake: args[0], Seen: seen}, time.Duration(every))
		},
	}
	f := c.Flags()
	f.StringVar(&server, "server", server, "the server's `URL`")
	f.StringVar(&seen, "seen-as", "", "where the server sees the lake: its file system's `LOCATION` (default the same)")
	f.Var(&every, "every", "again after a `DURATION`, until interrupted (default once)")
	f.Lookup("every").DefValue = "0"
	return c
}

func (a *commands) sync(c *cobra.Command, client *trino.Client, s trino.Sync, every time.Duration) error {
	for {
		done, err := client.Sync(c.Context(), s)
		switch {
		case c.Context().Err() != nil && every > 0:
			return nil
		case err != nil && every <= 0:
			return fmt.Errorf("lake trino: %w", err)
		case err != nil: // a server that is being restarted: the next time does all of it
			plain.Fprintf(a.Stderr, "memgauge: lake trino: %v\n", err)
		case every <= 0 || done.Added+done.Removed > 0:
			fmt.Fprintf(a.Text(), "%d tables; %d partitions added, %d removed\n", done.Tables, done.Added, done.Removed)
		}
		if every <= 0 {
			return nil
		}
		select {
		case <-c.Context().Done():
			return nil
		case <-time.After(every):
		}
	}
}

// where takes one argument, the place of a lake.
func where(c *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(c, args); err != nil {
		return err
	}
	if err := lake.CheckLocation(args[0]); err != nil {
		return fmt.Errorf("%q: %w", args[0], err)
	}
	return nil
}
