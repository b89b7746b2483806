// Package cli is the command line: it puts the families of commands together. Package app has what they share. The
// packages that they call do the work.
package cli

//go:generate go run ./gen -md ../../../docs/commands.md -py ../../../python/memgauge/_version.py

import (
	"io"

	"github.com/memgauge/memgauge/internal/faces/cli/advise"
	"github.com/memgauge/memgauge/internal/faces/cli/alloc"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/check"
	"github.com/memgauge/memgauge/internal/faces/cli/doctor"
	"github.com/memgauge/memgauge/internal/faces/cli/export"
	"github.com/memgauge/memgauge/internal/faces/cli/fleet"
	"github.com/memgauge/memgauge/internal/faces/cli/lake"
	"github.com/memgauge/memgauge/internal/faces/cli/native"
	"github.com/memgauge/memgauge/internal/faces/cli/observe"
	"github.com/memgauge/memgauge/internal/faces/cli/repair"
	"github.com/memgauge/memgauge/internal/faces/cli/snapshot"
	"github.com/memgauge/memgauge/internal/faces/cli/top"
	"github.com/memgauge/memgauge/internal/faces/cli/watch"
)

// families are all families of commands, in the order of --help: what a user does first comes first.
var families = []app.Family{observe.Commands, ask.Commands, watch.Commands, top.Commands, check.Commands,
	repair.Commands, snapshot.Commands, native.Commands, alloc.Commands, advise.Commands, export.Commands,
	fleet.Commands, lake.Commands,
	doctor.Commands}

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return app.Main(families, args, stdin, stdout, stderr)
}
