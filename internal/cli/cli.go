// Package cli is the command line: it puts the families of commands together. What they share is package app's, what
// they do is done by the packages that they call.
package cli

//go:generate go run ./gen -md ../../docs/commands.md -py ../agent/py/memgauge/_version.py

import (
	"io"

	"github.com/memgauge/memgauge/internal/cli/alloc"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/cli/ask"
	"github.com/memgauge/memgauge/internal/cli/check"
	"github.com/memgauge/memgauge/internal/cli/doctor"
	"github.com/memgauge/memgauge/internal/cli/export"
	"github.com/memgauge/memgauge/internal/cli/native"
	"github.com/memgauge/memgauge/internal/cli/observe"
	"github.com/memgauge/memgauge/internal/cli/snapshot"
	"github.com/memgauge/memgauge/internal/cli/watch"
)

// families are all there are, in the order of --help's first words: what one does first comes first.
var families = []app.Family{observe.Commands, ask.Commands, watch.Commands, check.Commands, snapshot.Commands,
	native.Commands, alloc.Commands, export.Commands, doctor.Commands}

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return app.Main(families, args, stdin, stdout, stderr)
}
