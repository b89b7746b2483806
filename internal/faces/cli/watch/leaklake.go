package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/skew"
)

// shownSlopes is how many ranks the text lists; the JSON has all.
const shownSlopes = 8

// leakLake compares the ranks of a job in a lake. Exit code 3 means that one is odd.
func (a *commands) leakLake(ctx context.Context, o leakOptions, where string) error {
	if !o.plain() {
		return app.Usage(remedy.Add(errors.New("leak: a lake is judged as it is"), "--job and --json go with it"))
	}
	t, err := lake.Open(ctx, lake.Choice{Location: where, Job: o.job, Views: skew.Tables})
	if err != nil {
		return fmt.Errorf("leak: %w", err)
	}
	defer t.Close()
	t.Note = func(text string) { plain.Fprintf(a.Stderr, "memgauge: %s\n", text) }
	job, err := theJob(ctx, t, o.job)
	if err != nil {
		return err
	}
	r, err := t.Compare(ctx, job)
	if err != nil {
		return fmt.Errorf("leak: %w", err)
	}
	if o.json {
		out := json.NewEncoder(a.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(struct {
			Version int    `json:"schema_version"`
			Job     string `json:"job"`
			skew.Report
			Text string `json:"text"`
		}{1, job, r, r.Text()})
	} else {
		err = printSkew(a.Text(), job, r)
	}
	if err == nil && len(r.Findings) > 0 {
		return app.Exit(app.ExitFindings, nil)
	}
	return err
}

// theJob is the only job of a lake, unless one was named.
func theJob(ctx context.Context, t *lake.Tables, job string) (string, error) {
	if job != "" {
		return job, nil
	}
	jobs, err := t.Jobs(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("leak: %w", err)
	case len(jobs) == 0:
		return "", errors.New("leak: the lake has no steps of any job")
	case len(jobs) > 1:
		return "", app.Usage(remedy.Add(fmt.Errorf("leak: the lake has %d jobs", len(jobs)),
			"name one with --job: "+strings.Join(jobs[:min(len(jobs), 20)], ", ")))
	}
	return jobs[0], nil
}

func printSkew(w io.Writer, job string, r skew.Report) error {
	plain.Fprintf(w, "%s: %s\n", job, r.Text())
	for _, warning := range r.Warnings {
		plain.Fprintf(w, "not compared: %s\n", warning)
	}
	if len(r.Slopes) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nsteepest ranks, against their peers at equal steps")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RANK\tNODE\tA STEP\tSINCE STEP\tBY NOW\tZ")
	for _, s := range r.Slopes[:min(len(r.Slopes), shownSlopes)] {
		plain.Fprintf(table, "%d\t%s\t%s\t%d\t%s\t%.1f\n", s.Rank, s.Node, units.Bytes(s.Pace), s.Since,
			units.Bytes(s.Excess), s.Z)
	}
	return table.Flush()
}
