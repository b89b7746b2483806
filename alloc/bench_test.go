package alloc_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
)

// sizes are log-uniform from 512 B to 64 MiB, as many as a power of two.
func sizes(seed uint64) []int64 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int64, 1<<16)
	for i := range out {
		out[i] = int64(512 * math.Exp2(17*r.Float64()))
	}
	return out
}

func newBench(b testing.TB, o alloc.Options) *alloc.Allocator {
	a, err := alloc.New(fake.New(fake.Config{Capacity: 1 << 40}), o)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// churn keeps 1,000 blocks live on a stream and replaces a random one in each turn: a turn is a pair of free and alloc.
func churn(b testing.TB, a *alloc.Allocator, stream alloc.Stream, turns int) (turn func(n int)) {
	all := sizes(uint64(stream))
	r := rand.New(rand.NewPCG(uint64(stream), 2))
	slots := make([]uint16, 1<<16)
	for i := range slots {
		slots[i] = uint16(r.IntN(1000))
	}
	live := make([]alloc.Ptr, 1000)
	for i := range live {
		live[i], _ = a.Alloc(all[i], stream)
	}
	i := 0
	turn = func(n int) {
		for range n {
			k := slots[i&0xffff]
			if err := a.Free(live[k]); err != nil {
				b.Fatal(err)
			}
			p, err := a.Alloc(all[(i*7)&0xffff], stream)
			if err != nil {
				b.Fatal(err)
			}
			live[k] = p
			i++
		}
	}
	turn(turns)
	return turn
}

// timed runs f and reports the processor time per turn and goroutine beside the wall time: on a machine that others use
// it is the steadier of the two.
func timed(b *testing.B, goroutines int, f func()) {
	var before, after unix.Rusage
	b.ResetTimer()
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	f()
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(cpu)/float64(b.N*goroutines), "cpu-ns/op")
}

const settled = 200_000 // turns until the reserved bytes hardly grow any more

// BenchmarkPair is an alloc and a free with 1,000 live blocks, log-uniform from 512 B to 64 MiB, exact statistics.
func BenchmarkPair(b *testing.B) {
	for _, p := range []alloc.Policy{alloc.Torch, alloc.Packed, alloc.VMM} {
		b.Run(string(p), func(b *testing.B) {
			turn := churn(b, newBench(b, alloc.Options{Policy: p}), 0, settled)
			timed(b, 1, func() { turn(b.N) })
		})
	}
}

// BenchmarkPairEvents is the same with the ring of events.
func BenchmarkPairEvents(b *testing.B) {
	turn := churn(b, newBench(b, alloc.Options{EventCapacity: 100_000}), 0, settled)
	timed(b, 1, func() { turn(b.N) })
}

// BenchmarkPairTwoStreams is two goroutines, each on a stream of its own; the figure is per pair of one of them.
func BenchmarkPairTwoStreams(b *testing.B) {
	a := newBench(b, alloc.Options{})
	turns := []func(int){churn(b, a, 1, settled), churn(b, a, 2, settled)}
	timed(b, 2, func() {
		var wg sync.WaitGroup
		for _, turn := range turns {
			wg.Go(func() { turn(b.N) })
		}
		wg.Wait()
	})
}

// BenchmarkRandomAllocations is RMM's random_allocations with 100,000 allocations of up to 1 MiB: each turn allocates
// with a chance that falls as memory fills, else frees a random block.
func BenchmarkRandomAllocations(b *testing.B) {
	for range b.N {
		a := newBench(b, alloc.Options{})
		r := rand.New(rand.NewPCG(1, 3))
		var live []alloc.Ptr
		var size []int64
		var total int64
		const most = 8 << 30 // RMM's default: 80 % of a device; here of one of 10 GiB
		for n := 0; n < 100_000; {
			if s := 1 + r.Int64N(1<<20); total+s <= most && r.Float64() < max(0.5, 1-float64(total)/most) {
				p, err := a.Alloc(s, 0)
				if err != nil {
					b.Fatal(err)
				}
				live, size, total, n = append(live, p), append(size, s), total+s, n+1
			} else if len(live) > 0 {
				i := r.IntN(len(live))
				if err := a.Free(live[i]); err != nil {
					b.Fatal(err)
				}
				total -= size[i]
				last := len(live) - 1
				live[i], size[i] = live[last], size[last]
				live, size = live[:last], size[:last]
			}
		}
	}
}

// BenchmarkSnapshot is a snapshot of 100,000 events and 1,000 live blocks.
func BenchmarkSnapshot(b *testing.B) {
	a := newBench(b, alloc.Options{EventCapacity: 100_000})
	churn(b, a, 0, settled)
	b.ResetTimer()
	for range b.N {
		if s := a.Snapshot(); len(s.Events) != 100_000 {
			b.Fatal(len(s.Events))
		}
	}
}
