package alloc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
	"github.com/memgauge/memgauge/test/env"
)

// step is an operation of a generated training: what a transformer's step requests from an allocator, small and fast.
// Index names the block, so that a run can continue after an allocation that failed.
type step struct {
	index  int
	size   int64 // 0: free
	stream alloc.Stream
	record bool // the block is used on another stream before it is freed
}

// training is parameters, then steps of forward (activations stay), backward (gradients come, activations go) and an
// optimizer with temporaries; one block in twenty is used on a second stream.
func training(seed uint64, layers, steps int) []step {
	r := rand.New(rand.NewPCG(seed, 11))
	var out []step
	n := 0
	give := func(size int64, stream alloc.Stream) int {
		out = append(out, step{index: n, size: size, stream: stream})
		n++
		return n - 1
	}
	take := func(i int) { out = append(out, step{index: i, record: r.IntN(20) == 0}) }
	hidden := int64(1024)
	for range layers {
		give(12*hidden*hidden, 0)
		give(4*hidden, 0)
	}
	for range steps {
		length := int64(64 + r.IntN(448))
		var kept []int
		for range layers {
			tmp := give(length*length*8, 0)
			kept = append(kept, give(length*hidden*4, 0), give(length*hidden*16, 0), give(length*4, 0))
			take(tmp)
		}
		var grads []int
		for i := len(kept) - 1; i >= 0; i-- {
			if i%3 == 0 {
				grads = append(grads, give(12*hidden*hidden, alloc.Stream(r.IntN(2))))
			}
			take(kept[i])
		}
		for _, g := range grads {
			tmp := give(4*hidden*hidden, 0)
			take(tmp)
			take(g)
		}
	}
	return out
}

// run does a training's steps and returns how many allocations failed; any other failure ends the test.
func run(t *testing.T, a *alloc.Allocator, d *fake.Device, ops []step, tolerate error) (failed int,
	live map[int]alloc.Ptr) {
	t.Helper()
	live = map[int]alloc.Ptr{}
	size := map[int]int64{}
	var used int64
	for i, op := range ops {
		d.Submit(op.stream, 1)
		if op.size > 0 {
			p, err := a.Alloc(op.size, op.stream)
			if err != nil {
				if !errors.Is(err, tolerate) {
					t.Fatalf("operation %d: %v", i, err)
				}
				failed++
				continue
			}
			live[op.index], size[op.index] = p, op.size
			used += op.size
			continue
		}
		p, ok := live[op.index]
		if !ok {
			continue
		}
		if op.record {
			if err := a.RecordStream(p, 5); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Free(p); err != nil && !errors.Is(err, tolerate) {
			t.Fatalf("operation %d: %v", i, err)
		}
		used -= size[op.index]
		delete(live, op.index)
	}
	if s := a.Stats(); s.UsedBytes.All.Current != used || s.Allocation.All.Current != int64(len(live)) {
		t.Fatalf("%d bytes in %d blocks are in use, the statistics say %d in %d", used, len(live),
			s.UsedBytes.All.Current, s.Allocation.All.Current)
	}
	return failed, live
}

var variants = map[string]alloc.Options{
	"torch":      {Policy: alloc.Torch, EventCapacity: 1000},
	"limits":     {Policy: alloc.Torch, MaxSplitSize: 24 << 20, GCThreshold: 0.6, MemoryFraction: 0.9},
	"expandable": {Policy: alloc.Torch, ExpandableSegments: true},
	"packed":     {Policy: alloc.Packed, Adaptive: true},
	"vmm":        {Policy: alloc.VMM, EventCapacity: 100},
	"direct":     {Policy: alloc.Direct},
	"genesis":    {Policy: alloc.Packed, MaxCached: 64 << 20, FragmentationThreshold: 0.3},
}

// TestEachDriverCallFails makes each call of the driver fail in turn, once as out of memory and once with another
// error. Afterwards the pointers, the statistics and the driver's accounts must be right.
func TestEachDriverCallFails(t *testing.T) {
	errBroken := errors.New("the device fell off the bus")
	ops := training(1, 4, 3)
	for name, o := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := fake.New(fake.Config{Capacity: 1 << 30})
			a, err := alloc.New(count, o)
			if err != nil {
				t.Fatal(err)
			}
			run(t, a, count, ops, nil)
			calls := count.Calls()
			stride := max(1, calls/env.Times(12, 1000))
			for n := 1; n <= calls; n += stride {
				for _, with := range []error{alloc.ErrNoMemory, errBroken} {
					failAt(t, o, ops, n, with)
				}
			}
		})
	}
}

func failAt(t *testing.T, o alloc.Options, ops []step, n int, with error) {
	t.Helper()
	d := fake.New(fake.Config{Capacity: 1 << 30, FailAt: n, FailWith: with})
	a, err := alloc.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	failed, live := run(t, a, d, ops, with)
	if with == alloc.ErrNoMemory && o.Policy != alloc.Direct && failed > 0 {
		t.Errorf("call %d: one lack of memory made %d allocations fail, though memory was to be had on a second try", n,
			failed)
	}
	if err := a.Check(); err != nil {
		t.Fatalf("call %d, %v: %v", n, with, err)
	}
	for _, p := range live {
		if err := a.Free(p); err != nil {
			t.Fatalf("call %d, %v: %v", n, with, err)
		}
	}
	if _, err := a.EmptyCache(); err != nil {
		t.Fatalf("call %d, %v: %v", n, with, err)
	}
	s := a.Stats()
	if s.ReservedBytes.All.Current != 0 || d.Used() != 0 || d.Marks() != 0 || len(d.Faults()) != 0 {
		t.Fatalf("call %d, %v: all freed, and %d bytes are reserved, %d used, %d marks left: %v", n, with,
			s.ReservedBytes.All.Current, d.Used(), d.Marks(), d.Faults())
	}
}

// TestFull fills a small device under each policy. Errors must say what they promise, and everything must be given back
// at the end.
func TestFull(t *testing.T) {
	ops := training(2, 6, 4)
	for name, o := range variants {
		d := fake.New(fake.Config{Capacity: 120 << 20})
		a, err := alloc.New(d, o)
		if err != nil {
			t.Fatal(err)
		}
		failed, _ := run(t, a, d, ops, alloc.ErrOutOfMemory)
		if failed == 0 {
			t.Errorf("%s: nothing failed", name)
		}
		_, err = a.Alloc(110<<20, 0)
		var oom *alloc.OOMError
		if !errors.As(err, &oom) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range []string{"CUDA OOM", "CUDA out of memory", "110 MiB", "120 MiB", "hole", "live:"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q:\n%v", name, want, err)
			}
		}
		if s := a.Stats(); s.OOMs != int64(failed+1) {
			t.Errorf("%s: %d allocations failed, counted %d", name, failed+1, s.OOMs)
		}
		if err := a.Close(); err != nil || d.Used() != 0 || len(d.Faults()) != 0 {
			t.Errorf("%s: closed with %d bytes in use: %v %v", name, d.Used(), err, d.Faults())
		}
	}
}

// TestCallbackGetsMemory frees blocks in the callback, which runs without a lock, so that the request is served.
func TestCallbackGetsMemory(t *testing.T) {
	a := newBench(t, alloc.Options{MemoryFraction: 0.0001}) // of a TiB: 104 MiB
	p, err := a.Alloc(80<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	a.OnOOM(func(e *alloc.OOMError) bool {
		asked++
		return a.Free(p) == nil
	})
	if _, err := a.Alloc(60<<20, 1); err != nil || asked != 1 {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	if _, err := a.Alloc(80<<20, 2); !errors.Is(err, alloc.ErrOutOfMemory) || asked != 2 {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	if _, err := a.Alloc(1<<40, 2); !errors.Is(err, alloc.ErrOutOfMemory) || asked != 2 {
		t.Fatalf("asked %d times for what no callback could help with: %v", asked, err)
	}
}

// TestGoroutines runs eight goroutines on four streams, which free each other's blocks, under the race detector and the
// checks.
func TestGoroutines(t *testing.T) {
	for name, o := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := fake.New(fake.Config{Capacity: 2 << 30})
			a, err := alloc.New(d, o)
			if err != nil {
				t.Fatal(err)
			}
			blocks := make(chan alloc.Ptr, 64)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() { worker(t, a, uint64(g), blocks) })
			}
			wg.Wait()
			close(blocks)
			for p := range blocks {
				if err := a.Free(p); err != nil {
					t.Error(err)
				}
			}
			if err := a.Check(); err != nil {
				t.Error(err)
			}
			if s := a.Stats(); s.Allocation.All.Current != 0 || s.UsedBytes.All.Current != 0 {
				t.Errorf("all freed, and %+v are left", s.UsedBytes.All)
			}
			if err := a.Close(); err != nil || d.Used() != 0 || len(d.Faults()) != 0 {
				t.Errorf("closed with %d bytes in use: %v %v", d.Used(), err, d.Faults())
			}
		})
	}
}

func worker(t *testing.T, a *alloc.Allocator, g uint64, blocks chan alloc.Ptr) {
	r := rand.New(rand.NewPCG(g, 13))
	turns := 400
	for i := range turns {
		p, err := a.Alloc(1+r.Int64N(1<<(10+r.IntN(13))), alloc.Stream(g%4))
		if err != nil {
			if !errors.Is(err, alloc.ErrOutOfMemory) {
				t.Error(err)
				return
			}
			continue
		}
		if i%11 == 0 {
			if err := a.RecordStream(p, alloc.Stream((g+1)%4)); err != nil {
				t.Error(err)
			}
		}
		switch i % 100 {
		case 50:
			a.Stats()
		case 60:
			a.Snapshot()
		case 70:
			if _, err := a.EmptyCache(); err != nil {
				t.Error(err)
			}
		}
		select {
		case blocks <- p:
		case q := <-blocks:
			for _, x := range []alloc.Ptr{p, q} {
				if err := a.Free(x); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestFlat does 10 million operations, pairs of a free and an alloc. The allocator's tables and the process's memory
// must be as after the first million: nothing grows with their number.
func TestFlat(t *testing.T) {
	first, all := 500_000, 5_000_000 // pairs
	if alloc.Checking {
		first, all = 2_000, 4_000 // enough to fill the ring of events
	}
	a := newBench(t, alloc.Options{EventCapacity: 1000})
	turn := churn(t, a, 0, first)
	table, resident := a.Footprint(), privateBytes(t)
	turn(all - first)
	if after := a.Footprint(); after > table+table/2 {
		t.Errorf("the allocator's own memory grew from %d to %d bytes", table, after)
	}
	const slack = 1 << 20 // of the runtime's own
	after := privateBytes(t)
	t.Logf("%d bytes resident after %d operations, %d after %d", resident, 2*first, after, 2*all)
	if !alloc.Checking && after > resident+slack {
		t.Errorf("resident memory grew from %d to %d bytes", resident, after)
	}
}

// privateBytes is the process's resident memory without shared pages, after everything that can be released was
// released.
func privateBytes(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		t.Fatalf("/proc/self/statm: %v", err)
	}
	return (resident - shared) * int64(os.Getpagesize())
}
