package native

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/test/env"
)

// A storm of blocks that are freed at once, 27 GB of them, and beside it 4,000 blocks that stay: of a function of its
// own, or of the allocator that the storm uses too.
const storming = `import ctypes, hashlib, os, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
kept, work = [], bytes(150_000)
def storm(i):
    a = [b"x" * (20_000 + 64 * (i + j) % 9000) for j in range(100)]
    b = b"y" * 4_000_000
def of_c():
    libc.malloc(18_534)
def of_python():
    kept.append(b"k" * 18_500)
leak = globals()[sys.argv[1]]
for i in range(4000):
    storm(i)
    hashlib.md5(work)
    leak()
os._exit(0)
`

// TestStorm: what a line holds is known, and the error that is told small, while another line allocates 400 times as
// much and frees it. A standard deviation is about a tenth.
func TestStorm(t *testing.T) {
	list := pythons(t)
	t.Run("of_c", func(t *testing.T) { storm(t, list[0], "of_c", "storming.py:10") })
	for _, python := range list {
		t.Run(python.Name(), func(t *testing.T) { storm(t, python, "of_python", "storming.py:12") })
	}
}

func storm(t *testing.T, python env.Python, name, place string) {
	dir, environ := sampling(t, 128*units.KiB)
	script := filepath.Join(dir, "storming.py")
	if err := os.WriteFile(script, []byte(storming), 0o600); err != nil {
		t.Fatal(err)
	}
	c := python.Command(t, script, name)
	c.Env = environ
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := NewReader(dir)
	defer r.Close()
	live, _, err := r.Look(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const want = 4000 * 18_534
	sum, half := 0.0, 0.0
	for _, row := range live {
		if strings.HasSuffix(row.Site, place) {
			sum, half = sum+float64(row.Bytes), math.Hypot(half, float64(row.High-row.Low)/2)
		}
	}
	t.Logf("%.1f ± %.1f MiB of %.1f", sum/(1<<20), half/(1<<20), want/float64(1<<20))
	// On a crowded machine the purse is small, and what is told is rougher.
	if half == 0 || half > want || math.Abs(sum-want) > max(0.5*want, 1.5*half) {
		t.Errorf("%.0f ± %.0f bytes of %d", sum, half, int64(want))
	}
}
