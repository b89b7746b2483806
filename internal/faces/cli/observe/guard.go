package observe

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/judge/guard"
)

// maxPolicy bounds what is read from standard input; package guard refuses less than that.
const maxPolicy = 1 << 20

type guardOptions struct{ json, schema, dryRun bool }

func (a *commands) guardCommand() *cobra.Command {
	var o guardOptions
	c := &cobra.Command{
		Use:         "guard [POLICY]",
		Annotations: app.AboutNoSession(),
		Short:       "Check a guard's policy and say what it does",
		Long: "Reads a policy for `memgauge run --guard`: guide (built in, and the default), a YAML file, or - for\n" +
			"standard input. Prints what is done when, or what is wrong with it by file, line and key.\n" +
			"memgauge guard test shows on this machine that a leak is seen and acted on.",
		Example: "  memgauge guard\n" +
			"  memgauge guard configs/safe_training.yaml\n" +
			"  memgauge guard --schema > policy.schema.json\n" +
			"  memgauge guard test --python .venv/bin/python",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.guard(append(args, guard.Guide)[0], o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "as the agent reads it")
	f.BoolVar(&o.schema, "schema", false, "print the JSON schema of policies")
	f.BoolVar(&o.dryRun, "dry-run", false, "with --json: of a guard that only tells")
	c.AddCommand(a.guardTestCommand())
	return c
}

func (a *commands) guard(name string, o guardOptions) error {
	if o.schema {
		_, err := a.Stdout.Write(guard.Schema())
		return err
	}
	p, err := a.loadPolicy(name)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if o.json {
		_, err = fmt.Fprintln(a.Stdout, p.Agent(o.dryRun))
		return err
	}
	return writePolicy(a.Text(), p)
}

func (a *commands) loadPolicy(name string) (*guard.Policy, error) {
	if name != "-" {
		return guard.Load(name)
	}
	text, err := io.ReadAll(io.LimitReader(a.Stdin, maxPolicy))
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return guard.Parse("policy", text)
}

func writePolicy(w io.Writer, p *guard.Policy) error {
	var b strings.Builder
	for _, r := range p.Rules {
		plain.Fprintf(&b, "%s: %s\n    %s\n", r.Name, r.Condition(), describeActions(r.Do))
	}
	for _, list := range p.Clear {
		plain.Fprintf(&b, "after each evaluation: clear %s\n", list)
	}
	for _, c := range p.Cap {
		plain.Fprintf(&b, "always: %s keeps its newest %s entries\n", c.List, units.Count(c.Length))
	}
	if p.OnOOM.Retry {
		plain.Fprintf(&b, "out of memory: start again with half the batch, %d times at most\n", p.OnOOM.MaxRetries)
	}
	if keys := p.SettingKeys(); len(keys) > 0 {
		plain.Fprintf(&b, "for the script (memgauge.policy()): %s\n", strings.Join(keys, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func describeActions(list []guard.Action) string {
	var words []string
	for _, a := range list {
		words = append(words, a.String())
	}
	return strings.Join(words, ", ")
}
