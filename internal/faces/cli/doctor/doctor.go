package doctor

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/doctor"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

type doctorOptions struct {
	json   bool
	python string
}

func (a *commands) doctorCommand() *cobra.Command {
	var o doctorOptions
	c := &cobra.Command{
		Use:         "doctor [PID]",
		Annotations: app.AboutNoSession(),
		Short:       "Tell what works on this machine, or whether a process can be observed, and why not",
		Long: "One line for each capability: whether it works, what was found, and what to do where it doesn't: sessions, Python and PyTorch,\n" +
			"memory against the cgroup, /dev/shm, CPUs, attaching, GPUs. Below stand suggestions for a training here. Exit code 3 means\n" +
			"that something memgauge needs is broken; what is merely absent is no failure.\n\n" +
			"With a PID: what attach would do with that process, or what stands in the way (exit code 3). If it is\n" +
			"observed, also what its steps are, and which library's work is not counted. The process is\n" +
			"neither stopped nor changed.",
		Example: "  memgauge doctor\n" +
			"  memgauge doctor --python .venv/bin/python\n" +
			"  memgauge doctor 27891\n" +
			"  memgauge doctor --json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.doctorTarget(cmd.Context(), args[0], o)
			}
			return a.doctor(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.StringVar(&o.python, "python", "", "examine the interpreter `PATH` instead of python3")
	return c
}

func (a *commands) doctor(ctx context.Context, o doctorOptions) error {
	m, err := doctor.Here(o.python)
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	r := m.Examine(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	if o.json {
		err = doc.WriteJSON(a.Stdout, struct {
			SchemaVersion int `json:"schema_version"`
			doctor.Report
		}{doc.JSONVersion, r})
	} else {
		err = writeDoctor(a.Text(), r)
	}
	if err == nil && r.Broken() {
		return app.Exit(app.ExitFindings, nil)
	}
	return err
}

func writeDoctor(w io.Writer, r doctor.Report) error {
	var b bytes.Buffer
	writeDoctorChecks(&b, r.Checks)
	plain.Fprintf(&b, "\nfor a training here: num_workers %d, batch size %d to begin with\n", r.Suggestions.Workers,
		r.Suggestions.BatchSize)
	for _, n := range r.Suggestions.Notes {
		plain.Fprintf(&b, "  %s\n", n)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// marks are what the eye goes by.
var marks = map[string]string{doctor.Works: "✔", doctor.Limited: "!", doctor.Absent: "–", doctor.Broken: "✘"}

func writeDoctorChecks(b *bytes.Buffer, checks []doctor.Check) {
	for _, c := range checks {
		plain.Fprintf(b, "%s %-8s %-26s %s\n", marks[c.State], c.State, c.Name, c.Found)
		if c.Hint != "" {
			plain.Fprintf(b, "  %-8s %-26s → %s\n", "", "", c.Hint)
		}
	}
}
