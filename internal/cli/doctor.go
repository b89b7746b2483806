package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/doctor"
	"github.com/memgauge/memgauge/internal/session"
)

type doctorOptions struct {
	json   bool
	python string
}

func (a *app) doctorCommand() *cobra.Command {
	var o doctorOptions
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what works on this machine, and why not",
		Long: "One line for each capability: whether it works, what was found, and what to do where it doesn't: sessions, Python and PyTorch,\n" +
			"memory against the cgroup, /dev/shm, CPUs, attaching, GPUs. Below stand suggestions for a training here. Exit code 3 means\n" +
			"that something memgauge needs is broken; what is merely absent is no failure.",
		Example: "  memgauge doctor\n" +
			"  memgauge doctor --python .venv/bin/python\n" +
			"  memgauge doctor --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), o) },
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.StringVar(&o.python, "python", "", "examine the interpreter `PATH` instead of python3")
	return c
}

func (a *app) doctor(ctx context.Context, o doctorOptions) error {
	home, err := session.Home()
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	r := doctor.Machine{Root: "/", Home: home, Python: o.python}.Examine(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	if o.json {
		err = writeJSON(a.stdout, struct {
			SchemaVersion int `json:"schema_version"`
			doctor.Report
		}{jsonVersion, r})
	} else {
		err = writeDoctor(a.stdout, r)
	}
	if err == nil && r.Broken() {
		return &exitError{code: exitFindings}
	}
	return err
}

func writeDoctor(w io.Writer, r doctor.Report) error {
	var b bytes.Buffer
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-26s %s\n", c.State, c.Name, c.Found)
		if c.Hint != "" {
			fmt.Fprintf(&b, "%-8s %-26s → %s\n", "", "", c.Hint)
		}
	}
	fmt.Fprintf(&b, "\nfor a training here: num_workers %d, batch size %d to begin with\n", r.Suggestions.Workers, r.Suggestions.BatchSize)
	for _, n := range r.Suggestions.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	_, err := w.Write(b.Bytes())
	return err
}
