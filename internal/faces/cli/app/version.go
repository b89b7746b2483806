package app

import (
	_ "embed"
	"strings"
)

// version.txt is the only place with the version of the program, of the Python package and of a release's files. It has
// the form of Python packages (0.2.0.dev0 comes before 0.2.0), since pip compares it.
//
//go:embed version.txt
var versionText string

// build is set by the linker (scripts/version): the commit ("+g9d2133d"), or "" in a release.
var build string

// Number is the version alone; Version adds the commit of this build.
var (
	Number  = strings.TrimSpace(versionText)
	Version = Number + build
)
