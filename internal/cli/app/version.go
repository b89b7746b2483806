package app

import (
	_ "embed"
	"strings"
)

// version.txt is the one place where the version stands: of the program, of the Python package, of the files of a
// release. It is written as Python's packages write theirs (0.2.0.dev0 before 0.2.0), which is what pip compares.
//
//go:embed version.txt
var versionText string

// build is set by the linker (scripts/version): the commit, where this is not the release itself: "+g9d2133d".
var build string

// Number is the version alone, and Version what this binary says of itself.
var (
	Number  = strings.TrimSpace(versionText)
	Version = Number + build
)
