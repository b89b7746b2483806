package native

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/test/env"
)

// TestAttached: calls of a process that runs are led to the library and back, again and again under a storm of
// allocations in eight threads, which finds what it wrote. What is held from then on is known by its line, in a forked
// child too, and so is a map by a system call.
func TestAttached(t *testing.T) {
	for _, python := range pythons(t) {
		t.Run(python.Name(), func(t *testing.T) {
			dir, environ := sampling(t, 128*units.KiB)
			library := valueOf(environ, "LD_PRELOAD")
			c := python.Command(t, "-W", "ignore", filepath.Join(env.Checkout(), "test", "native", "attached.py"), library, dir,
				strconv.Itoa(env.Times(5, 1000)))
			if out, err := c.CombinedOutput(); err != nil || string(out) != "ok\n" {
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
	held, raw := map[int32]int64{}, int64(0)
	for _, row := range live {
		if strings.HasSuffix(row.Site, "attached.py:25") {
			held[row.PID] += row.Bytes
		}
		if strings.HasSuffix(row.Site, "attached.py:44") {
			raw += row.Bytes
		}
	}
	if len(held) != 2 {
		t.Errorf("held by %d processes, not by parent and child: %+v", len(held), live)
	}
	for pid, got := range held {
		if math.Abs(float64(got)/1e8-1) > 0.4 {
			t.Errorf("process %d: %d bytes at the line, not some 100 MB", pid, got)
		}
	}
	if raw < 25<<20 {
		t.Errorf("%d bytes of a map by a system call", raw)
	}
}
