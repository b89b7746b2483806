package attach

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/attach/image"
)

// Version is a CPython version.
type Version struct{ Major, Minor, Micro int } // Micro is -1 if unknown

// String formats the version like 3.12.1, or 3.12 if Micro is unknown.
func (v Version) String() string {
	if v.Micro < 0 {
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
}

// firsts are functions by the version that first exported them; before 3.11 no variable contains the version.
var firsts = []struct {
	minor int
	name  string
}{{10, "PyModule_AddObjectRef"}, {9, "PyInterpreterState_Get"}, {8, "PyConfig_Clear"}}

func (t *Target) askInterpreter() (string, error) {
	t.symbols = map[string]uint64{}
	path, im := t.findPython()
	if im == nil {
		return "", remedy.Add(fmt.Errorf("%w: %s", ErrNotPython, t.Exe),
			"give the PID of the python process itself, not of its shell, launcher or container; pgrep -a python "+
				"lists them")
	}
	t.Library, t.python = path, im
	if err := t.readVersion(); err != nil {
		return "", err
	}
	for _, f := range functions {
		if s, ok := im.Symbol(f.name); ok && !f.libc {
			t.symbols[f.name] = s.Addr
		}
	}
	if _, ok := im.Symbol("_Py_MergeZeroLocalRefcount"); ok { // of Include/refcount.h, under Py_GIL_DISABLED
		return "", remedy.Add(fmt.Errorf("%w: a free-threaded build", ErrVersion),
			"start the training with memgauge run, or with the ordinary build of the same version")
	}
	linked := "in the program itself"
	if path != t.Exe {
		linked = "in " + filepath.Base(path)
	}
	return fmt.Sprintf("CPython %v %s", t.Python, linked), nil
}

// findPython searches where an interpreter usually is, and then everywhere.
func (t *Target) findPython() (string, *image.Image) {
	usual := func(path string) bool {
		return path == t.Exe || strings.HasPrefix(filepath.Base(path), "libpython")
	}
	for _, wanted := range []func(string) bool{usual, func(path string) bool { return !usual(path) }} {
		for path, im := range t.images(wanted) {
			if _, ok := im.Symbol("Py_AddPendingCall"); ok {
				return path, im
			}
		}
	}
	return "", nil
}

func (t *Target) readVersion() error {
	if _, ok := t.python.Symbol("PyString_FromString"); ok {
		return remedy.Add(fmt.Errorf("%w: Python 2", ErrVersion), "memgauge needs CPython 3.8 or newer")
	}
	if s, ok := t.python.Symbol("Py_Version"); ok { // PY_VERSION_HEX, from 3.11 on
		var b [8]byte
		if _, err := t.mem.ReadAt(b[:], int64(s.Addr)); err != nil {
			return fmt.Errorf("read Py_Version: %w", err)
		}
		hex := binary.LittleEndian.Uint64(b[:])
		t.Python = Version{int(hex >> 24 & 0xff), int(hex >> 16 & 0xff), int(hex >> 8 & 0xff)}
	} else {
		t.Python = Version{3, 0, -1}
		for _, f := range firsts {
			if _, ok := t.python.Symbol(f.name); ok {
				t.Python.Minor = f.minor
				break
			}
		}
	}
	if t.Python.Major != 3 || t.Python.Minor < 8 {
		return remedy.Add(fmt.Errorf("%w: older than 3.8", ErrVersion), "memgauge needs CPython 3.8 or newer")
	}
	return nil
}
