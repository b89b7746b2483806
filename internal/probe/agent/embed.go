package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/python"
)

// build is set by the linker, as that of internal/faces/cli/app is: what memgauge.__version__ has after the number.
var build string

const versionFile = "lib/memgauge/_version.py"

// source is the agent as it is unpacked: boot/sitecustomize.py and lib/memgauge/**.py, by path.
var source = sync.OnceValue(func() map[string][]byte {
	sources, err := python.Sources()
	if err != nil {
		panic(err) // the files are part of this binary
	}
	files := map[string][]byte{}
	for name, text := range sources {
		if !strings.HasPrefix(name, "boot/") {
			name = "lib/" + name
		}
		files[name] = []byte(text)
	}
	files[versionFile] = withBuild(files[versionFile], build)
	return files
})

func withBuild(module []byte, build string) []byte {
	if build == "" {
		return module
	}
	return fmt.Appendf(module, "VERSION += %q\n", build)
}

// hashBytes is how much of the content hash names a version: 2^64 of them, and paths stay short (a control socket's
// path has 108 bytes).
const hashBytes = 8

// Hash is the agent's version: a hash over the names and contents of its files.
var Hash = sync.OnceValue(func() string {
	h := sha256.New()
	for _, name := range names() {
		data := source()[name]
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)[:hashBytes])
})
