package native

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/internal/base/units"
)

const libraryName = "libmemgauge_native.so"

// Bounds of the sampling interval. Below 16 KiB a training pays for its samples, not for their meaning; above 64 MiB
// nothing but single blocks of that size would be seen.
const (
	MinInterval units.Bytes = 16 << 10
	MaxInterval units.Bytes = 64 << 20
)

// Install unpacks the library into home/native/HASH and returns its path. Where others can replace what lies in home
// the error is trust.ErrOthers.
func Install(home string) (path string, err error) {
	data, err := built.ReadFile(libraryPath)
	if err != nil {
		return "", remedy.Add(fmt.Errorf("native memory: this memgauge has no library for %s with this C library",
			runtime.GOARCH), "use a release for x86-64 or aarch64 with glibc, or build with make build")
	}
	sum := sha256.Sum256(data)
	dir := filepath.Join(home, "native", hex.EncodeToString(sum[:8]))
	path = filepath.Join(dir, libraryName)
	if strings.ContainsAny(path, ": \t\n") {
		return "", remedy.Add(
			fmt.Errorf("native memory: %s has a colon or a space, which end an entry of LD_PRELOAD", path),
			"set MEMGAUGE_HOME to a directory without")
	}
	d, err := rootdir.Own(dir, trust.Code)
	if err != nil {
		return "", fmt.Errorf("native memory: %w", err)
	}
	defer d.Close()
	have, err := d.ReadFile(libraryName, int64(len(data)))
	if err == nil && bytes.Equal(have, data) && trust.Path(path, trust.Code) == nil {
		return path, runnable(dir)
	}
	if err := d.ReplaceText(libraryName, data); err != nil { // a job that runs may have the file before mapped
		return "", fmt.Errorf("native memory: %w", err)
	}
	return path, runnable(dir)
}

// runnable refuses a file system from which the linker may not map code: it would only say so on the command's stderr.
func runnable(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err == nil && st.Flags&unix.ST_NOEXEC != 0 {
		return remedy.Add(fmt.Errorf("native memory: %s is on a file system mounted with noexec", dir),
			"set MEMGAUGE_HOME to a directory on another one")
	}
	return nil
}

// Env adds to a command's environment what samples every Python of the job into dir. An allocator that the user
// preloads stays behind the library, which calls it. Arrow has a pool of its own that maps gigabytes ahead, where no
// leak shows: it is told to use malloc unless the user has chosen.
func Env(env []string, library, dir string, interval units.Bytes) []string {
	preload, arrow := library, false
	var out []string
	for _, entry := range env {
		key, value, _ := strings.Cut(entry, "=")
		switch key {
		case "LD_PRELOAD":
			preload = join(library, value)
			continue
		case "MEMGAUGE_NATIVE", "MEMGAUGE_NATIVE_DIR":
			continue
		case "ARROW_DEFAULT_MEMORY_POOL":
			arrow = true
		}
		out = append(out, entry)
	}
	out = append(out, "LD_PRELOAD="+preload, "MEMGAUGE_NATIVE="+strconv.FormatInt(int64(interval), 10),
		"MEMGAUGE_NATIVE_DIR="+dir)
	if !arrow {
		out = append(out, "ARROW_DEFAULT_MEMORY_POOL=system")
	}
	return out
}

// entries are those of LD_PRELOAD.
func entries(preload string) []string {
	return strings.FieldsFunc(preload, func(r rune) bool { return strings.ContainsRune(": \t\n", r) })
}

// join puts the library in front of what is preloaded, in place of one of a session around this one.
func join(library, others string) string {
	list := []string{library}
	for _, entry := range entries(others) {
		if filepath.Base(entry) != libraryName {
			list = append(list, entry)
		}
	}
	return strings.Join(list, ":")
}

// Without is an environment without the library of a session around this one.
func Without(env []string) []string {
	var out []string
	for _, entry := range env {
		key, value, _ := strings.Cut(entry, "=")
		if key == "MEMGAUGE_NATIVE" || key == "MEMGAUGE_NATIVE_DIR" {
			continue
		}
		if key == "LD_PRELOAD" && strings.Contains(value, libraryName) {
			_, rest, _ := strings.Cut(join("", value), ":")
			if rest == "" {
				continue
			}
			entry = "LD_PRELOAD=" + rest
		}
		out = append(out, entry)
	}
	return out
}
