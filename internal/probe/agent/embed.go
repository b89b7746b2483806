package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/python"
)

// build is set by the linker, as that of internal/faces/cli/app is: what memgauge.__version__ has after the number.
var build string

const versionFile = "lib/memgauge/_version.py"

// source is the agent as it is unpacked: boot/sitecustomize.py and lib/memgauge/**.py, by path.
var source = sync.OnceValue(func() map[string][]byte {
	files, err := readSource(python.Files)
	if err != nil {
		panic(err) // the files are part of this binary
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

func readSource(from fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".py" {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return fmt.Errorf("read embedded %s: %w", name, err)
		}
		if !strings.HasPrefix(name, "boot/") {
			name = "lib/" + name
		}
		files[name] = data
		return nil
	})
	return files, err
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
