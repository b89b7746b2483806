package native

import "embed"

// The directory is there without the library too, so that this package builds before scripts/native has run.
//
//go:embed lib/amd64
var built embed.FS

const libraryPath = "lib/amd64/" + libraryName
