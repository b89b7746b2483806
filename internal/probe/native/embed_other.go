//go:build !amd64 && !arm64

package native

import "embed"

var built embed.FS

const libraryPath = libraryName
