package app

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestSessionBeforeTheCommand: --session may stand before a command that asks one, or that has a flag of that name for
// something else; others refuse it.
func TestSessionBeforeTheCommand(t *testing.T) {
	t.Setenv("MEMGAUGE_TARGET", "")
	for line, want := range map[string]string{"--session /s asks": "asks /s", "asks --session /s": "asks /s",
		"--session /s makes": "makes /s", "--session /s other": "no session", "asks": "asks "} {
		said := ""
		family := func(a *App) []*cobra.Command {
			dir := ""
			says := func(c *cobra.Command, _ []string) error {
				said = c.Name() + " " + dir + a.SessionDir
				return nil
			}
			asks := &cobra.Command{Use: "asks", RunE: says}
			makes := &cobra.Command{Use: "makes", Annotations: AboutNoSession(), RunE: says}
			makes.Flags().StringVar(&dir, "session", "", "")
			other := &cobra.Command{Use: "other", Annotations: AboutNoSession(), RunE: says}
			return []*cobra.Command{asks, makes, other}
		}
		a := &App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Families: []Family{family}}
		if err := a.Execute(t.Context(), strings.Fields(line)); err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, want) {
			t.Errorf("%s: %s", line, said)
		}
	}
}
