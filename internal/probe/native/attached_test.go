package native

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/test/env"
)

// TestAttached: calls of a process that runs are led to the library and back, again and again under a storm of
// allocations in eight threads, which find what they wrote, of libraries that come and go, and of forks. When they are
// led back, no word in the data of a loaded file leads to the library. What is held from then on is known by its line:
// by ctypes, by a library that is opened later, of a memfd, by a system call, in a forked child. The long lane has
// 1,000 cycles, which the Pythons share.
func TestAttached(t *testing.T) {
	all := pythons(t)
	if !env.InLong() {
		all = all[:1] // how Python's frames are read is tested elsewhere, with each
	}
	for _, python := range all {
		t.Run(python.Name(), func(t *testing.T) {
			dir, environ := sampling(t, 128*units.KiB)
			other := filepath.Join(dir, "other.so")
			source := filepath.Join(env.Checkout(), "test", "native", "attached.c")
			out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", other, source).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			script := filepath.Join(env.Checkout(), "test", "native", "attached.py")
			c := python.Command(t, "-W", "ignore", script, valueOf(environ, "LD_PRELOAD"), dir,
				strconv.Itoa(env.Times(5, (1000+len(all)-1)/len(all))), other)
			if out, err = c.CombinedOutput(); err != nil || string(out) != "ok\n" {
				t.Fatalf("%v: %s", err, out)
			}
			checkAttached(t, dir)
		})
	}
}

func checkAttached(t *testing.T, dir string) {
	t.Helper()
	r := NewReader(dir)
	defer r.Close()
	live, _, err := r.Look(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	held := map[int32]int64{}
	var raw, shared, late int64
	for _, row := range live {
		switch {
		case strings.HasSuffix(row.Site, "attached.py:77"):
			held[row.PID] += row.Bytes
		case strings.HasSuffix(row.Site, "attached.py:119"):
			raw += row.Bytes
		case strings.HasSuffix(row.Site, "attached.py:117") && row.Called == "share (late.so)":
			shared += row.Bytes
		case strings.HasSuffix(row.Site, "attached.py:116") && row.Called == "keep (late.so)":
			late += row.Bytes
		}
	}
	if len(held) != 2 {
		t.Errorf("held by %d processes, not by parent and child", len(held))
	}
	for pid, got := range held {
		if math.Abs(float64(got)/1e8-1) > 0.4 {
			t.Errorf("process %d: %d bytes at the line, not some 100 MB", pid, got)
		}
	}
	if math.Abs(float64(late)/1e8-1) > 0.4 {
		t.Errorf("%d bytes of a library that was opened later, not some 100 MB", late)
	}
	if raw < 25<<20 {
		t.Errorf("%d bytes of a map by a system call", raw)
	}
	if shared < 25<<20 {
		t.Errorf("%d bytes of a file that is memory", shared)
	}
}

// TestEndedTable: a table to which nothing comes any more goes once it was read, though its process lives.
func TestEndedTable(t *testing.T) {
	dir := t.TempDir()
	head := make([]byte, headerSize)
	copy(head, magic)
	head[8], head[64], head[136] = format, stateEnding, 1
	if err := os.WriteFile(filepath.Join(dir, "1.1.1"+Suffix), head, 0o600); err != nil {
		t.Fatal(err)
	}
	r := NewReader(dir)
	defer r.Close()
	if _, _, err := r.Look(time.Now()); err != nil {
		t.Fatal(err)
	}
	r.Sweep(func(int, uint64) bool { return true })
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+Suffix)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
