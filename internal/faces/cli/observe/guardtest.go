package observe

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/observe"
)

func (a *commands) guardTestCommand() *cobra.Command {
	python := "python3"
	c := &cobra.Command{
		Use:         "test",
		Annotations: app.AboutNoSession(),
		Short:       "Leak on purpose, and show that it is seen and acted on",
		Long: "Runs a small script that keeps 256 KiB at every step, once to see whether the leak is found with the\n" +
			"list that holds it, and once under a guard that bounds that list. Takes some 20 s and 150 MiB; leaves\n" +
			"nothing behind. Exit code 3: something did not work.",
		Example: "  memgauge guard test\n" +
			"  memgauge guard test --python .venv/bin/python",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.guardTest(cmd.Context(), python) },
	}
	c.Flags().StringVar(&python, "python", python, "the interpreter `PATH` that trains")
	return c
}

func (a *commands) guardTest(ctx context.Context, python string) error {
	all, err := observe.Test(ctx, python, app.Version)
	if err != nil {
		return exitOfStart(optionMistake(err))
	}
	failed := false
	for _, t := range all {
		mark := "✔"
		if !t.OK {
			mark, failed = "✘", true
		}
		fmt.Fprintf(a.Text(), "%s %-22s %s\n", mark, t.Name, t.Found)
	}
	if failed {
		return app.Exit(app.ExitFindings, nil)
	}
	return nil
}
