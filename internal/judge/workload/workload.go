// Package workload owns synthetic loads for allocators and measures their cost: the figures of memgauge alloc bench. It
// judges nothing. Machines are noisy, so everything is timed several times, in processor time of the thread. Other
// programs then disturb it only through the caches.
package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
)

// Figure is one measurement.
type Figure struct {
	What    string  // what was timed
	Setting string  // the policy and other settings
	Value   float64 // median over the rounds
	Best    float64 // the lowest: what a quiet machine would show
	Unit    string  // "ns", "ms" or "ratio"
}

// Options say how much to measure.
type Options struct {
	Policies []string
	Pairs    int // alloc+free pairs a round
	Rounds   int
}

// The load of PyTorch-like sizes: as many live blocks as a training has at a time, from one element to a large
// activation.
const (
	live              = 1000
	smallest, largest = 512, 64 << 20
)

// sizes are log-uniform and the same in every run.
func sizes(n int, seed uint64) []int64 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int64, n)
	low, high := math.Log(smallest), math.Log(largest)
	for i := range out {
		out[i] = int64(math.Exp(low + r.Float64()*(high-low)))
	}
	return out
}

// churn keeps live blocks and replaces one at a time, in an order that looks random; it returns ns for each alloc+free
// pair.
type churn struct {
	a      *alloc.Allocator
	sizes  []int64
	order  []int
	held   []alloc.Ptr
	stream alloc.Stream
}

func newChurn(a *alloc.Allocator, n int, stream alloc.Stream) (*churn, error) {
	c := &churn{a: a, sizes: sizes(1<<14, uint64(stream)+7), held: make([]alloc.Ptr, live), order: make([]int, n),
		stream: stream}
	r := rand.New(rand.NewPCG(uint64(stream)+3, 2))
	for i := range c.order {
		c.order[i] = r.IntN(live)
	}
	for i := range c.held {
		p, err := a.Alloc(c.sizes[i], stream)
		if err != nil {
			return nil, err
		}
		c.held[i] = p
	}
	return c, nil
}

func (c *churn) run() (float64, error) {
	began := cpu()
	for i, k := range c.order {
		if err := c.a.Free(c.held[k]); err != nil {
			return 0, err
		}
		p, err := c.a.Alloc(c.sizes[i&(len(c.sizes)-1)], c.stream)
		if err != nil {
			return 0, err
		}
		c.held[k] = p
	}
	return float64(cpu()-began) / float64(len(c.order)), nil
}

// cpu is the processor time of this thread, to which the caller is locked.
func cpu() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // Linux has had it since 2.6.12
	}
	return time.Duration(now.Nano())
}

// capacity of the fake device: many times what the load needs.
const capacity = 1 << 40

// Measure measures all figures.
func Measure(o Options) (out []Figure, err error) {
	for _, policy := range o.Policies {
		for _, m := range []func(Options, string) (Figure, error){pair, withEvents, twoThreads, random, snapshotTime} {
			f, err := m(o, policy)
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", policy, err)
			}
			out = append(out, f)
		}
	}
	return out, nil
}

func allocator(policy string, events int) (*alloc.Allocator, error) {
	return alloc.New(fake.New(fake.Config{Capacity: capacity}),
		alloc.Options{Policy: alloc.Policy(policy), EventCapacity: events})
}

func pair(o Options, policy string) (Figure, error) {
	return timedChurn(o, policy, "alloc+free pair, 512 B to 64 MiB, 1,000 live", 0)
}

func withEvents(o Options, policy string) (Figure, error) {
	return timedChurn(o, policy, "the same with the event ring", 100_000)
}

func timedChurn(o Options, policy, what string, events int) (Figure, error) {
	a, err := allocator(policy, events)
	if err != nil {
		return Figure{}, err
	}
	c, err := newChurn(a, o.Pairs, 0)
	if err != nil {
		return Figure{}, err
	}
	return repeat(o.Rounds, what, policy, "ns", c.run)
}

// twoThreads runs the load on two streams at once. It returns the time of a pair on each stream over that of one thread
// alone, from pairs of runs.
func twoThreads(o Options, policy string) (Figure, error) {
	a, err := allocator(policy, 0)
	if err != nil {
		return Figure{}, err
	}
	one, err := newChurn(a, o.Pairs, 0)
	if err != nil {
		return Figure{}, err
	}
	two, err := newChurn(a, o.Pairs, 1)
	if err != nil {
		return Figure{}, err
	}
	return repeat(o.Rounds, "two threads on two streams, over one", policy, "ratio", func() (float64, error) {
		alone, err := one.run()
		if err != nil {
			return 0, err
		}
		both := [2]float64{}
		errs := [2]error{}
		var wg sync.WaitGroup
		for i, c := range []*churn{one, two} {
			wg.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				both[i], errs[i] = c.run()
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return 0, err
			}
		}
		return max(both[0], both[1]) / alone, nil
	})
}

// RMM's random_allocations: with a probability of 53 % an allocation of up to 1 MiB, else one at random is freed, until
// so many are made; then the rest is freed. https://github.com/rapidsai/rmm (benchmarks/random_allocations)
const (
	rmmCount   = 100_000
	rmmLargest = 1 << 20
)

func random(o Options, policy string) (Figure, error) {
	return repeat(min(o.Rounds, 3), "RMM's random_allocations 100,000/1", policy, "ms", func() (float64, error) {
		a, err := allocator(policy, 0)
		if err != nil {
			return 0, err
		}
		r := rand.New(rand.NewPCG(1, 5))
		held := make([]alloc.Ptr, 0, rmmCount)
		began := cpu()
		for made := 0; made < rmmCount; {
			if len(held) == 0 || r.IntN(100) < 53 {
				p, err := a.Alloc(1+r.Int64N(rmmLargest), 0)
				if err != nil {
					return 0, err
				}
				held = append(held, p)
				made++
				continue
			}
			i := r.IntN(len(held))
			if err := a.Free(held[i]); err != nil {
				return 0, err
			}
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
		for _, p := range held {
			if err := a.Free(p); err != nil {
				return 0, err
			}
		}
		return float64((cpu() - began).Microseconds()) / 1000, nil
	})
}

func snapshotTime(o Options, policy string) (Figure, error) {
	const events = 100_000
	a, err := allocator(policy, events)
	if err != nil {
		return Figure{}, err
	}
	c, err := newChurn(a, events/2, 0)
	if err != nil {
		return Figure{}, err
	}
	if _, err := c.run(); err != nil {
		return Figure{}, err
	}
	return repeat(o.Rounds, "snapshot of 100,000 events", policy, "ms", func() (float64, error) {
		began := cpu()
		s := a.Snapshot()
		took := cpu() - began
		if len(s.Events) < events {
			return 0, fmt.Errorf("%d events in the snapshot", len(s.Events))
		}
		return float64(took.Microseconds()) / 1000, nil
	})
}

// repeat runs once to warm up, then rounds times.
func repeat(rounds int, what, setting, unit string, run func() (float64, error)) (Figure, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all []float64
	for i := range rounds + 1 {
		v, err := run()
		if err != nil {
			return Figure{}, err
		}
		if i > 0 {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return Figure{what, setting, all[len(all)/2], all[0], unit}, nil
}
