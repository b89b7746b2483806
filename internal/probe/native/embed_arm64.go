package native

import "embed"

// The directory is there without the library too, so that this package builds before scripts/native has run.
//
//go:embed lib/arm64
var built embed.FS

const libraryPath = "lib/arm64/" + libraryName
