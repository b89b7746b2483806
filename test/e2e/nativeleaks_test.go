package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

const minute = "1200" // calls of a leak that has 20 a second

// lateLeaks are the leaks of native memory that programs are attached to for, with what is said of each: a part of the
// function of C, or "" for Arrow's, whose allocator is linked into it (docs/native.md).
var lateLeaks = map[string]string{
	"ctypes_malloc":        "_ctypes",
	"numpy_kept_by_c":      "(_multiarray_umath",
	"pillow_images":        "(_imaging.",
	"opencv_resize":        "(_multiarray_umath", // an array is numpy's
	"sqlite_databases":     "(libsqlite3.",
	"lxml_trees":           "(etree.",
	"zlib_objects":         "deflateInit2_",
	"tokenizers_encodings": "(tokenizers.",
	"cpp_extension":        "lose (loser.so)",
	"raw_maps":             "lose (loser.so)",
	"memfd_maps":           "mmap_object (mmap.",
	"arrow_buffers":        "",
}

// TestNativeLeaksLate: programs that have leaked native memory for a while are attached to; the line that grows most is
// the one that leaks, with the function of C.
func TestNativeLeaksLate(t *testing.T) {
	t.Parallel()
	env.Long(t, "twelve programs with libraries that only scripts/testenv --only natives has")
	python, program := env.Natives(t).Path, filepath.Join(env.Checkout(), "test", "bench", "native", "leaks.py")
	out, err := exec.Command(python, program, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for _, l := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		name, line, _ := strings.Cut(l, " ")
		lines[name] = "leaks.py:" + line
	}
	for name, function := range lateLeaks {
		w := newWorld(t)
		p := w.start(python, program, name, "3600", minute) // the minutes of all pass at once
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.t = t
			until(t, "a minute's leak", func() bool { return strings.Contains(p.out.String(), "leaking") })
			pid := strconv.Itoa(p.Process.Pid)
			said := w.mg("attach", "--native", "--timeout", "60s", pid)
			if function == "" {
				if !strings.Contains(said, "mimalloc in libarrow.so") {
					t.Errorf("it says %q", said)
				}
			} else {
				w.growsMost(pid, lines[name], function)
			}
			w.mg("detach", "--timeout", "60s", pid)
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := p.wait(t); code != 0 {
				t.Errorf("the program ended with %d\n%s", code, p.err)
			}
		})
	}
}

// growsMost waits until the line has grown more than all others, and by enough for its growth to be no accident.
func (w *world) growsMost(pid, line, function string) {
	w.t.Helper()
	until(w.t, line+" with "+function, func() bool {
		var d struct {
			Lines []struct {
				Site, Called string
				Grown        int64
			}
		}
		r := w.do("memgauge", pid, "native", "diff", "--from", "start", "--json")
		return r.code == 0 && json.Unmarshal([]byte(r.stdout), &d) == nil && len(d.Lines) > 0 &&
			d.Lines[0].Grown > 4e6 && strings.HasSuffix(d.Lines[0].Site, line) &&
			strings.Contains(d.Lines[0].Called, function)
	})
}
