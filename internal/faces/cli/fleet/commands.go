// Package fleet holds the commands of the machines of a fleet: hub, which all others know, and node, which ships and
// answers.
package fleet

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// commands are those of the package, with what all commands share.
type commands struct{ *app.App }

// Commands makes them.
func Commands(a *app.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.hubCommand(), c.nodeCommand()}
}

const (
	lakeDir = "lake" // the lake, in the directory of a hub
)

// defaultPort is NATS's own.
const defaultPort = "4222"

// log tells what happens, a line each, on standard error.
func (a *commands) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}
