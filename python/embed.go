// Package python is memgauge's Python: the package memgauge with the agent that runs in trainings (memgauge/_agent),
// and boot/sitecustomize.py, which starts it. Package agent brings it into processes, scripts/pack makes a wheel of it.
package python

import "embed"

// Files has boot/ and memgauge/. all: because a plain pattern leaves out files that begin with an underscore,
// __init__.py among them (golang/go#58354). It takes __pycache__ too where a test has run: readers take *.py alone.
//
//go:embed all:boot all:memgauge
var Files embed.FS
