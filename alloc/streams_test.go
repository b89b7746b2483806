package alloc_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
)

// Threads free blocks that other streams use, under the settings where a free needs the device's lock. All the while
// somebody reads the statistics, which takes shards that wait for that lock as they stand. Nothing may be half counted
// then.
func TestGaugesUnderThreads(t *testing.T) {
	turns := 3000
	if alloc.Checking {
		turns = 150
	}
	for _, conf := range []string{"policy:direct", "max_pool_size_mb:4", "policy:direct,events:1000",
		"policy:vmm,max_pool_size_mb:4", ""} {
		t.Run(conf, func(t *testing.T) {
			o := alloc.Options{}
			if err := o.Set(conf); err != nil {
				t.Fatal(err)
			}
			d := fake.New(fake.Config{})
			a, err := alloc.New(d, o)
			if err != nil {
				t.Fatal(err)
			}
			const workers = 4
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() { streamWorker(t, a, d, w, turns) })
			}
			stop, done := make(chan bool), make(chan bool)
			go func() {
				defer close(done)
				for {
					select {
					case <-stop:
						return
					default:
						if s := a.Stats(); s.ActiveBytes.All.Current < s.AllocatedBytes.All.Current ||
							s.RequestedBytes.All.Current < 0 {
							t.Errorf("active %+v, allocated %+v", s.ActiveBytes.All, s.AllocatedBytes.All)
						}
						if err := a.Check(); err != nil {
							t.Error(err)
							return
						}
					}
				}
			}()
			wg.Wait()
			close(stop)
			<-done
			if _, err := a.EmptyCache(); err != nil { // waits for all marks
				t.Fatal(err)
			}
			s := a.Stats()
			for name, g := range map[string]alloc.PoolStats{"active": s.Active, "active bytes": s.ActiveBytes,
				"requested": s.RequestedBytes,
				"allocated": s.AllocatedBytes, "reserved": s.ReservedBytes} {
				if g.All.Current != 0 || g.Large.Current != 0 || g.Small.Current != 0 {
					t.Errorf("%s: %+v at the end", name, g)
				}
			}
			if err := a.Check(); err != nil || len(d.Faults()) > 0 {
				t.Error(err, d.Faults())
			}
		})
	}
}

func streamWorker(t *testing.T, a *alloc.Allocator, d *fake.Device, w, turns int) {
	r := rand.New(rand.NewPCG(uint64(w), 6))
	var held []alloc.Ptr
	for range turns {
		if len(held) > 8 || (len(held) > 0 && r.IntN(2) == 0) {
			i := r.IntN(len(held))
			if r.IntN(2) == 0 {
				other := alloc.Stream(r.IntN(4))
				d.Submit(other, 1)
				if err := a.RecordStream(held[i], other); err != nil {
					t.Error(err)
					return
				}
			}
			if err := a.Free(held[i]); err != nil {
				t.Error(err)
				return
			}
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			d.Run(alloc.Stream(r.IntN(4)), 1)
			continue
		}
		p, err := a.Alloc(1+r.Int64N(4<<20), alloc.Stream(w%3))
		if err != nil {
			t.Error(err)
			return
		}
		held = append(held, p)
	}
	for _, p := range held {
		if err := a.Free(p); err != nil {
			t.Error(err)
		}
	}
}

// Peaks are exact with any number of streams: in turn each has one block, two at the most.
func TestPeaksOfManyStreams(t *testing.T) {
	streams := 64
	if alloc.Checking {
		streams = 20
	}
	a := newBench(t, alloc.Options{})
	last := alloc.Ptr(0)
	for turn := range 5 * streams {
		p, err := a.Alloc(3<<20, alloc.Stream(turn%streams))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Free(last); err != nil {
			t.Fatal(err)
		}
		last = p
		if turn == 2*streams {
			a.ResetPeak()
		}
	}
	s := a.Stats()
	if s.Allocation.All.Peak != 2 || s.AllocatedBytes.All.Peak != 6<<20 || s.Active.All.Peak != 2 ||
		s.Allocation.All.Current != 1 {
		t.Errorf("allocations %+v, active %+v", s.Allocation.All, s.Active.All)
	}
	if want := int64(streams) * 20 << 20; s.ReservedBytes.All.Peak != want || s.CachedBytes.All.Peak != want-3<<20 {
		t.Errorf("reserved %+v of %d, cached %+v", s.ReservedBytes.All, want, s.CachedBytes.All)
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
}

// A block that was recorded on another stream before most streams were known is active until that one has passed.
func TestActiveWithManyStreams(t *testing.T) {
	d := fake.New(fake.Config{})
	a, err := alloc.New(d, alloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	take := func(s alloc.Stream) alloc.Ptr {
		p, err := a.Alloc(1000, s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for s := range alloc.Stream(20) {
		take(s)
	}
	p := take(3)
	d.Submit(50, 1)
	if err := a.RecordStream(p, 50); err != nil {
		t.Fatal(err)
	}
	if err := a.Free(p); err != nil {
		t.Fatal(err)
	}
	s := a.Stats()
	if s.Allocation.All.Current != 20 || s.Active.All.Current != 21 || s.Active.All.Peak != 21 ||
		s.PendingFreeBlocks != 1 {
		t.Errorf("allocations %+v, active %+v", s.Allocation.All, s.Active.All)
	}
	if q := take(3); q == p {
		t.Error("the block was handed out while another stream used it")
	}
	d.Run(50, 1)
	if q := take(3); q != p {
		t.Errorf("%#x, not the block at %#x that is free by now", q, p)
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
}

// The memory of a private pool is for nobody else and stays until the pool is released; meanwhile the device is not
// queried.
func TestPrivatePool(t *testing.T) {
	d := fake.New(fake.Config{})
	a, err := alloc.New(d, alloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	take := func(pool alloc.PoolID) alloc.Ptr {
		p, err := a.AllocRequest(alloc.Request{Size: 30 << 20, Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	free := func(p alloc.Ptr) {
		if err := a.Free(p); err != nil {
			t.Fatal(err)
		}
	}
	outside := take(0)
	free(outside)
	a.BeginPool(1)
	inside := take(1)
	if inside == outside {
		t.Error("the pool got memory that others use")
	}
	d.Submit(9, 1)
	if err := a.RecordStream(inside, 9); err != nil {
		t.Fatal(err)
	}
	free(inside)
	if d.Marks() != 0 {
		t.Error("a mark was recorded during the capture")
	}
	if _, err := a.EmptyCache(); err == nil {
		t.Error("the cache was given back during the capture")
	}
	if err := a.EndPool(1); err != nil || d.Marks() != 1 {
		t.Errorf("%v, %d marks after the capture", err, d.Marks())
	}
	if n, err := a.EmptyCache(); err != nil || n != 30<<20 {
		t.Errorf("gave back %d, %v: want what no pool has", n, err)
	}
	if p := take(1); p != inside {
		t.Error("the pool's memory is not the pool's any more")
	} else {
		free(p)
	}
	if p := take(0); p == inside {
		t.Error("memory of the pool was handed out")
	} else {
		free(p)
	}
	a.ReleasePool(1)
	if n, err := a.EmptyCache(); err != nil || n != 60<<20 {
		t.Errorf("gave back %d, %v after the release", n, err)
	}
	if err := a.Check(); err != nil || len(d.Faults()) > 0 {
		t.Error(err, d.Faults())
	}
}

// BenchmarkManyStreams is a hit and its free, on one stream after the other.
func BenchmarkManyStreams(b *testing.B) {
	for _, streams := range []int{1, 2, 4, 6, 8, 32, 1024} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			a := newBench(b, alloc.Options{})
			turn := func(n int) {
				for i := range n {
					p, err := a.Alloc(4096, alloc.Stream(i%streams))
					if err == nil {
						err = a.Free(p)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			turn(2 * streams)
			timed(b, 1, func() { turn(b.N) })
		})
	}
}

// BenchmarkOOM is a request that can't be served, with 100,000 events in the ring.
func BenchmarkOOM(b *testing.B) {
	a := newBench(b, alloc.Options{EventCapacity: 100_000})
	churn(b, a, 0, settled)
	timed(b, 1, func() {
		for range b.N {
			if _, err := a.Alloc(1<<42, 0); err == nil {
				b.Fatal("served")
			}
		}
	})
}
