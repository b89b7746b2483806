// Package simulate makes fleets whose truth is known: a job of many ranks with the noise that real ones have, and
// planted faults. It is for tests and for the table in docs/lake.md; the program itself doesn't import it.
package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/memgauge/memgauge/internal/fleet/skew"
)

// Fleet is a job. Sizes are bytes.
type Fleet struct {
	Ranks, PerNode, Steps int
	Faults                []Fault
	// Hard adds noise of a family that no threshold was chosen by: heavy tails, baselines that drift, ranks that are
	// slow for a while, page cache that comes and goes in gigabytes.
	Hard bool
	seed uint64
}

// Fault is what is wrong with a rank, or with a node (Rank < 0).
type Fault struct {
	Kind skew.Kind
	Rank int
	Node string
	At   int     // step from which it is there
	Size float64 // bytes, or bytes a step, or seconds a step
}

const (
	mb = 1e6
	gb = 1e9
)

// Kinds are those that are planted.
var Kinds = []skew.Kind{skew.Leak, skew.Step, skew.PileUp, skew.Lagging, skew.HostLeak}

// New makes a fleet with one kind of fault in one to three ranks or nodes; kind "" plants none. Rank 0 alone piles up.
func New(seed uint64, kind skew.Kind, ranks, steps int) Fleet {
	f := Fleet{Ranks: ranks, PerNode: 8, Steps: steps, seed: seed}
	r := rand.New(rand.NewPCG(seed, 1))
	taken := map[int]bool{}
	nodes := (ranks + f.PerNode - 1) / f.PerNode
	for range min(f.planted(kind, r), nodes) { // each has a node of its own
		rank := r.IntN(ranks)
		for taken[rank/f.PerNode] {
			rank = r.IntN(ranks)
		}
		if kind == skew.PileUp {
			rank = 0
		}
		taken[rank/f.PerNode] = true
		fault := Fault{Kind: kind, Rank: rank, Node: f.node(rank), At: int(float64(steps) * (0.05 + 0.65*r.Float64()))}
		switch kind {
		case skew.Leak: // a list of losses up to a kept graph
			fault.Size = mb * math.Exp(math.Log(2)+r.Float64()*math.Log(10))
		case skew.Step: // a second copy of something
			fault.Size = gb * (1.5 + 4*r.Float64())
		case skew.PileUp: // every rank of the node, or all of them, put something there
			fault.Size, fault.At = gb*(2+6*r.Float64()), 0
		case skew.Lagging: // a slower disk, a throttled device
			fault.Size = 0.02 + 0.1*r.Float64()
		case skew.HostLeak: // workers, a page cache that is pinned
			fault.Size, fault.Rank = mb*math.Exp(math.Log(8)+r.Float64()*math.Log(8)), -1
		}
		f.Faults = append(f.Faults, fault)
	}
	return f
}

func (f Fleet) planted(kind skew.Kind, r *rand.Rand) int {
	switch kind {
	case "":
		return 0
	case skew.PileUp:
		return 1
	}
	return 1 + r.IntN(3)
}

func (f Fleet) node(rank int) string { return fmt.Sprintf("node-%04d", rank/f.PerNode) }

func (f Fleet) fault(kind skew.Kind, unit skew.Unit) (Fault, bool) {
	for _, x := range f.Faults {
		if x.Kind == kind && x.Rank == unit.Rank && x.Node == unit.Node {
			return x, true
		}
	}
	return Fault{}, false
}

// Each hands over what every rank and node reports at the end of each step.
func (f Fleet) Each(memory, times, host func(u skew.Unit, step int64, value float64)) {
	r := rand.New(rand.NewPCG(f.seed, 2))
	common := f.common(r)
	for rank := range f.Ranks {
		u := skew.Unit{Rank: rank, Node: f.node(rank)}
		f.memory(rand.New(rand.NewPCG(f.seed, uint64(100+rank))), u, common, memory)
	}
	f.times(r, times)
	for n := 0; n*f.PerNode < f.Ranks; n++ {
		f.host(r, skew.Unit{Rank: -1, Node: f.node(n * f.PerNode)}, host)
	}
}

// shared is what all ranks do at the same steps.
type shared struct {
	offset []float64 // by step: warm-up, evaluation, the batch's length
	stages []float64 // level by stage of the pipeline
	warm   []float64 // share of the warm-up by stage
}

func (f Fleet) common(r *rand.Rand) shared {
	c := shared{offset: make([]float64, f.Steps)}
	stages := []int{1, 1, 2, 4, 8}[r.IntN(5)]
	base := gb * (10 + 50*r.Float64())
	for range stages {
		c.stages = append(c.stages, base*(0.8+0.4*r.Float64()))
		c.warm = append(c.warm, 0.5+r.Float64())
	}
	evaluation := 100 + r.IntN(400)
	length := 50 * mb * r.Float64()
	for s := range c.offset {
		c.offset[s] = gb * (1 - math.Exp(-float64(s)/100))
		c.offset[s] += length * r.ExpFloat64()
		if s%evaluation > evaluation-20 {
			c.offset[s] += 3 * gb
		}
	}
	return c
}

// memory is one rank's: its stage's level, what all do, and noise of its own: values that return (AR(1)), garbage that
// is collected now and then (sawtooth), batches of different lengths, and segments that its allocator takes once and
// keeps. Those come at any time in one rank of four.
func (f Fleet) memory(r *rand.Rand, u skew.Unit, c shared, add func(skew.Unit, int64, float64)) {
	stage := u.Rank * len(c.stages) / f.Ranks
	level := c.stages[stage] + 20*mb*r.NormFloat64()
	rho, sd := 0.9*r.Float64(), mb*(1+9*r.Float64())
	period, tooth := 20+r.IntN(150), 60*mb*r.Float64()
	phase := r.IntN(period)
	var segments []int
	if r.IntN(4) == 0 {
		for range 1 + r.IntN(3) {
			segments = append(segments, r.IntN(f.Steps))
		}
	}
	segment := float64(int(20+r.Float64()*80)) * mb
	leader := u.Rank%f.PerNode == 0 // saves checkpoints
	leak, leaks := f.fault(skew.Leak, u)
	step, steps := f.fault(skew.Step, u)
	pile, piles := f.fault(skew.PileUp, u)
	x := sd * r.NormFloat64()
	hard := f.hardMemory(r)
	for s := range f.Steps {
		x = rho*x + sd*math.Sqrt(1-rho*rho)*r.NormFloat64()
		v := level + hard(s) + c.warm[stage]*c.offset[s] + x + 10*mb*r.ExpFloat64() +
			tooth*float64((s+phase)%period)/float64(period)
		for _, at := range segments {
			if s >= at {
				v += segment
			}
		}
		if leader && s%250 > 245 {
			v += 2 * gb
		}
		if leaks && s > leak.At {
			v += leak.Size * float64(s-leak.At)
		}
		if steps && s >= step.At {
			v += step.Size
		}
		if piles {
			v += pile.Size
		}
		add(u, int64(s), v)
	}
}

// times are when ranks end their steps: they wait for each other most of the time, clocks differ by up to ten minutes
// and drift by some parts in a million.
func (f Fleet) times(r *rand.Rand, add func(skew.Unit, int64, float64)) {
	pace := 0.3 + r.Float64()
	var clock, drift float64
	for rank := range f.Ranks {
		u := skew.Unit{Rank: rank, Node: f.node(rank)}
		if rank%f.PerNode == 0 {
			clock, drift = 600*(2*r.Float64()-1), 1+10e-6*r.NormFloat64()
		}
		lag, lags := f.fault(skew.Lagging, u)
		slow := f.hardTime(r)
		for s := range f.Steps {
			t := pace*float64(s) + 0.02*r.ExpFloat64() + slow(s)
			if r.IntN(500) == 0 {
				t += 2 * r.Float64() // a batch that came late
			}
			if lags && s > lag.At {
				t += lag.Size * float64(s-lag.At)
			}
			add(u, int64(s), 1.7e9+clock+drift*t)
		}
	}
}

// host is what a node uses: page cache and workers come and go in amounts of some hundred megabytes.
func (f Fleet) host(r *rand.Rand, u skew.Unit, add func(skew.Unit, int64, float64)) {
	level := gb * (100 + 5*r.NormFloat64())
	rho, sd := 0.95, mb*(50+100*r.Float64())
	x := sd * r.NormFloat64()
	leak, leaks := f.fault(skew.HostLeak, u)
	cache := f.hardHost(r)
	for s := range f.Steps {
		x = rho*x + sd*math.Sqrt(1-rho*rho)*r.NormFloat64()
		v := level + x + gb*(1-math.Exp(-float64(s)/100)) + 100*mb*r.ExpFloat64() + cache(s)
		if leaks && s > leak.At {
			v += leak.Size * float64(s-leak.At)
		}
		add(u, int64(s), v)
	}
}
