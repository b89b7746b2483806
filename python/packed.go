//go:build packed

package python

import _ "embed"

// packed is what scripts/sources made of boot/ and memgauge/ right before this program was built.
//
//go:embed sources.zst
var packed []byte

// Sources are the Python files that this program carries, by path: boot/… and memgauge/….
func Sources() (map[string]string, error) { return Unpack(packed) }
