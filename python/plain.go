//go:build !packed

package python

import "embed"

// tree has boot/ and memgauge/. all: because a plain pattern leaves out files that begin with an underscore,
// __init__.py among them (golang/go#58354).
//
//go:embed all:boot all:memgauge
var tree embed.FS

// Sources are the Python files that this program carries, by path: boot/… and memgauge/….
func Sources() (map[string]string, error) { return Read(tree) }
