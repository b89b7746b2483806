//go:build linux

package cuda_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/cuda"
	"github.com/memgauge/memgauge/test/env"
)

// fakeLibrary compiles testdata/fakecuda.c and opens its device.
func fakeLibrary(t *testing.T) (*cuda.Device, string) {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	lib := filepath.Join(t.TempDir(), "libcuda.so.1")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-pthread", "-o", lib,
		"testdata/fakecuda.c").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	t.Setenv("FAKECUDA_BYTES", "268435456")
	d, err := cuda.OpenLibrary(lib, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d, lib
}

// TestPolicies runs each policy on the fake driver from several goroutines, which move between threads, and wants all
// back.
func TestPolicies(t *testing.T) {
	d, _ := fakeLibrary(t)
	for _, o := range []alloc.Options{{Policy: alloc.Torch}, {Policy: alloc.Torch, ExpandableSegments: true},
		{Policy: alloc.Packed},
		{Policy: alloc.VMM}, {Policy: alloc.Direct}} {
		a, err := alloc.New(d, o)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() { churn(t, a, g, 0, 1, 9) })
		}
		wg.Wait()
		_, err = a.Alloc(250<<20, 0)
		if p, err2 := a.Alloc(20<<20, 0); err != nil && !errors.Is(err, alloc.ErrOutOfMemory) ||
			err2 != nil && !errors.Is(err2, alloc.ErrOutOfMemory) {
			t.Errorf("%s: %v %v %#x", o.Policy, err, err2, uint64(p))
		}
		if err := errors.Join(a.Check(), a.Close()); err != nil {
			t.Errorf("%s: %v", o.Policy, err)
		}
		if free, total, err := d.MemInfo(); free != total || err != nil {
			t.Errorf("%s: %d bytes of %d are free after all was closed: %v", o.Policy, free, total, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// churn allocates on two streams, and lets a third use each block.
func churn(t *testing.T, a *alloc.Allocator, g uint64, first, second, third alloc.Stream) {
	r := rand.New(rand.NewPCG(g, 17))
	var live []alloc.Ptr
	for range 150 {
		if r.IntN(5) < 3 || len(live) == 0 {
			p, err := a.Alloc(1+r.Int64N(4<<20), []alloc.Stream{first, second}[g%2])
			if errors.Is(err, alloc.ErrOutOfMemory) {
				continue
			} else if err != nil {
				t.Error(err)
				return
			}
			live = append(live, p)
			continue
		}
		p := live[len(live)-1]
		live = live[:len(live)-1]
		if err := errors.Join(a.RecordStream(p, third), a.Free(p)); err != nil {
			t.Error(err)
		}
	}
	for _, p := range live {
		if err := a.Free(p); err != nil {
			t.Error(err)
		}
	}
}

// TestHeldEvent keeps a block back as long as the driver says that its event is not ready.
func TestHeldEvent(t *testing.T) {
	d, lib := fakeLibrary(t)
	handle, err := purego.Dlopen(lib, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	var hold func(int32)
	purego.RegisterLibFunc(&hold, handle, "fakecuda_hold")
	a, err := alloc.New(d, alloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Alloc(30<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	hold(1)
	if err := errors.Join(a.RecordStream(p, 5), a.Free(p)); err != nil {
		t.Fatal(err)
	}
	if q, err := a.Alloc(30<<20, 0); q == p || err != nil {
		t.Errorf("handed out while in use: %v", err)
	}
	hold(0)
	if q, err := a.Alloc(30<<20, 0); q != p || err != nil {
		t.Errorf("not handed out though free: %v", err)
	}
}

func TestNoDriver(t *testing.T) {
	_, err := cuda.OpenLibrary(filepath.Join(t.TempDir(), "libcuda.so.1"), 0)
	if !errors.Is(err, cuda.ErrNoDriver) {
		t.Errorf("without a library: %v", err)
	}
	_, lib := fakeLibrary(t)
	if _, err := cuda.OpenLibrary(lib, 3); !errors.Is(err, cuda.ErrNoDriver) ||
		!strings.Contains(err.Error(), "1 GPUs") {
		t.Errorf("a GPU that is not there: %v", err)
	}
	if _, err := cuda.OpenLibrary("/proc/self/exe", 0); !errors.Is(err, cuda.ErrNoDriver) {
		t.Errorf("something else than a library: %v", err)
	}
}

// Streams that every context has (cuda.h). Another number is taken for a pointer by the driver.
const (
	legacyStream    alloc.Stream = 1 // CU_STREAM_LEGACY
	perThreadStream alloc.Stream = 2 // CU_STREAM_PER_THREAD
)

// TestRealDevice runs on the machine's own GPU where it has one.
func TestRealDevice(t *testing.T) {
	d, err := cuda.Open(0)
	if errors.Is(err, cuda.ErrNoDriver) {
		env.Missing(t, "cuda", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, p := range alloc.Policies {
		a, err := alloc.New(d, alloc.Options{Policy: p, MemoryFraction: 0.2})
		if err != nil {
			t.Fatal(err)
		}
		churn(t, a, 0, 0, legacyStream, perThreadStream)
		if err := errors.Join(a.Check(), a.Close()); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
