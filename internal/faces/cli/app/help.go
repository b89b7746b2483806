package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// printUsage replaces cobra's usage text, which has the examples in the middle. Users look for the examples, so they
// come last, right above the prompt.
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() && !leads(c) {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n\nCommands:\n", c.CommandPath())
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s  %s\n", c.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	if flags := c.LocalFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags)
	}
	every, many := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(hubFlags, f.Name) {
			many.AddFlag(f)
		} else {
			every.AddFlag(f)
		}
	})
	if flags := every.FlagUsages(); flags != "" {
		fmt.Fprintf(&b, "\nFlags of every command:\n%s", flags)
	}
	if flags := many.FlagUsages(); flags != "" && reachesHub(c) {
		fmt.Fprintf(&b, "\nFlags where many machines are asked:\n%s", flags)
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}
