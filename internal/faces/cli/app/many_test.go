package app_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
)

// asks is a family of one command that says what it is asked.
func asks(name string, flags bool, seen func(*app.App, []string)) app.Family {
	return func(a *app.App) []*cobra.Command {
		c := &cobra.Command{Use: name, RunE: func(_ *cobra.Command, args []string) error {
			seen(a, args)
			return nil
		}}
		if flags {
			c.Flags().String("token-file", "", "the command's own")
		}
		return []*cobra.Command{c}
	}
}

// TestFlagsOfTheWay: what is said of a hub may stand before the command or behind it; before it, it is the hub's even
// where the command has a flag of that name. The statement behind them stays one.
func TestFlagsOfTheWay(t *testing.T) {
	for _, name := range []string{"MEMGAUGE_TARGET", "MEMGAUGE_HUB", "MEMGAUGE_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	for _, c := range []struct {
		line, token, args string
		here              bool
	}{
		{line: "hub --strict --deadline=9s --token-file f query SELECT", token: "f", args: "SELECT"},
		{line: "job=a,rank=7 query SELECT --strict --token-file f --deadline 9s", token: "f", args: "SELECT"},
		{line: "-t hub --strict --deadline 9s query -- --strict", args: "--strict"},
		{line: "query -t gpu-1:4222 --strict --deadline 9s SELECT", args: "SELECT"},
		{line: "gpu-1:4222 --token-file f --strict --deadline 9s web --token-file g", token: "f"},
		{line: "query SELECT", args: "SELECT", here: true},
		{line: "27891 query SELECT", args: "SELECT", here: true},
	} {
		asked := false
		seen := func(a *app.App, args []string) {
			asked = true
			if a.Many() == c.here || strings.Join(args, " ") != c.args || !c.here &&
				(!a.Hub.Strict || a.Hub.Wait != 9*time.Second || a.Hub.Token != c.token) {
				t.Errorf("%s: %v, %+v", c.line, args, a.Hub)
			}
		}
		a := &app.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
			Families: []app.Family{asks("query", false, seen), asks("web", true, seen)}}
		if err := a.Execute(t.Context(), strings.Fields(c.line)); err != nil || !asked {
			t.Errorf("%s: %v", c.line, err)
		}
	}
}

// TestNobodyElsesHub: what somebody else asks is of this machine, and reaches no hub.
func TestNobodyElsesHub(t *testing.T) {
	a := &app.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Apart: true}
	a.Reach = func(source.Way, time.Duration) (source.Fleet, error) {
		t.Error("a hub was reached")
		return nil, context.Canceled
	}
	a.Say("hub")
	if _, err := a.Target(t.Context()); !app.IsUsage(err) {
		t.Error(err)
	}
}
