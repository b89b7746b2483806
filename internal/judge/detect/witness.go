package detect

import (
	"fmt"
	"math"
	"slices"
)

// host judges the host memory of a training process: by the heap where there are readings enough; otherwise by all
// private memory, which also grows when the heap is fragmented, and then what was read of the heap has the last word.
// Where it was not read since the growth began it has none: no reading is not no growth.
func (p Process) host() (Kind, Growth, string) {
	heap := p.judgeFrom(p.Heap, p.least(OfHost))
	stale := heap.End < p.Steps()*fresh // a heap that has become too slow to be read is read once a minute
	if heap.N >= minFloors && heap.Why != TooFewSteps && !stale {
		return Heap, heap, ""
	}
	anon := p.judgeFrom(p.Anon, p.least(OfHost))
	if anon.Verdict != Leak || heap.N < leastReadings {
		if heap.N >= minFloors && anon.Verdict == Undecided && !stale {
			return Heap, heap, ""
		}
		return Anon, anon, ""
	}
	h := p.Heap.clean().from(anon.Start)
	switch few := len(h.Steps) < leastReadings; {
	case !few && h.total() >= anon.Rate*h.width()*quarter:
	case few || h.width() < halfOf*(anon.End-anon.Start):
		return Anon, anon, fmt.Sprintf("the heap was read until %s %.0f, too seldom since the growth began: the "+
			"rate is that of private memory, up to three times that of what is kept", unitOf(p.Work, false), heap.End)
	default:
		anon.because(KeptFree)
		return Anon, anon, ""
	}
	// The heap's slope is the rate: private memory grows 1 to 3 times as fast, for the gaps between what is kept.
	rate := h.total() / h.width()
	note := fmt.Sprintf("private memory grows %.3g MiB/%s; the rate is that of the heap, from %d readings",
		anon.Rate/(1<<20), unitOf(p.Work, false), len(h.Steps))
	anon.Low, anon.High = min(anon.Low, rate*0.9), max(anon.High, rate)
	anon.Rate, anon.Total = rate, rate*(anon.End-anon.Start)
	return Heap, anon, note
}

const (
	// fresh is the share of a run by which the heap must have been read last to speak for its end: growth that stopped,
	// or began, in the last fifth is not told in less.
	fresh = 0.8
	// leastReadings since a growth began that a witness must have to speak against it.
	leastReadings = 3
	// quarter of the growth is what a witness must show to confirm it: it sees a part of it.
	quarter = 0.25
)

// private judges what is private but not malloc's, and asks Python's allocator and the address space for a second
// witness: of pages that malloc keeps free some may be touched again, which is growth of this memory and of nothing
// else. It can't be more than malloc keeps. More than that, in an address space that does not grow, is memory that was
// mapped before and is written to for the first time, such as numpy's zeros: it ends when all of it is in use.
func (p Process) private() Growth {
	g := p.judge(p.Private)
	blocksGrow := p.judge(scaled(p.Blocks, blockSize))
	if g.Verdict != Leak {
		if blocksGrow.Verdict == Leak {
			return p.arenas(g, blocksGrow)
		}
		return g
	}
	grown := quarter * g.Total
	blocks, space := scaled(p.Blocks, blockSize).risen(g.Start), p.Space.risen(g.Start)
	switch {
	case blocks >= grown || space >= grown: // NaN: not read, and no witness
	case math.IsNaN(blocks) && math.IsNaN(space):
	case g.Total > p.keptFree(g.Start) && space < grown && p.usesMalloc():
		g.because(Touches)
	case g.Total > p.keptFree(g.Start):
	default:
		g.because(NoWitness)
	}
	return g
}

// arenas judges Python's own memory by its blocks, which are counted with every look at the process, where what they
// are in was read too seldom: it gives the rate.
func (p Process) arenas(few, blocks Growth) Growth {
	s := p.Private.clean().from(blocks.Start)
	if len(s.Steps) < 2 || s.total() < quarter*blocks.Total*s.width()/(blocks.End-blocks.Start) {
		return few
	}
	rate := s.total() / s.width()
	blocks.Low, blocks.High = min(blocks.Low, rate/contradicts), max(blocks.High, rate*contradicts)
	blocks.Rate, blocks.Total, blocks.Level = rate, rate*(blocks.End-blocks.Start), few.Level
	return blocks
}

// risen is what a series gained from a step on, between the middles of its first and last thirds, and as much again for
// the third that these leave out; NaN where it was read too seldom.
func (s Series) risen(from float64) float64 {
	s = s.clean().from(from)
	n := len(s.Bytes)
	if n < leastReadings {
		return math.NaN()
	}
	third := max(1, n/3)
	first, last := slices.Clone(s.Bytes[:third]), slices.Clone(s.Bytes[n-third:])
	slices.Sort(first)
	slices.Sort(last)
	return 1.5 * (last[third/2] - first[third/2])
}

// keptFree is what malloc had from the kernel and had not handed out, at a step: what it holds is all private memory
// less what is not malloc's. +Inf where it was not read.
func (p Process) keptFree(step float64) float64 {
	at := func(s Series) float64 {
		s = s.clean()
		if i, _ := slices.BinarySearch(s.Steps, step); i < len(s.Steps) {
			return s.Bytes[i]
		}
		return math.NaN()
	}
	if free := at(p.Anon) - at(p.Private) - at(p.Heap); !math.IsNaN(free) {
		return max(0, free)
	}
	return math.Inf(1)
}

// usesMalloc says that the C library's malloc holds something. Another allocator in its place may map its arenas long
// before it hands them out.
func (p Process) usesMalloc() bool {
	heap := p.Heap.clean()
	return len(heap.Bytes) > 0 && heap.Bytes[len(heap.Bytes)-1] > material
}

// blockSize is about what a block of Python's allocator takes: an int, a float, a short string, a small tuple.
const blockSize = 64

func scaled(s Series, by float64) Series {
	out := Series{s.Steps, make([]float64, len(s.Bytes))}
	for i, y := range s.Bytes {
		out.Bytes[i] = y * by
	}
	return out
}

// mapped judges file pages. What was only read the kernel takes back when it needs it, however many files a data set
// has and whenever they are mapped; what the process has written to it must write back first. So growth counts as far
// as dirty pages grow with it.
func (p Process) mapped() Growth {
	g := p.judge(p.Mapped)
	if g.Verdict == Healthy || g.Total <= 0 {
		return g
	}
	dirty := p.Dirty.clean()
	if g.Verdict == Leak && len(dirty.Steps) > 1 {
		i, _ := slices.BinarySearch(dirty.Steps, g.Start)
		i = max(0, min(i, len(dirty.Steps)-2)) // it is read seldom: one reading from before will do
		dirty = dirty.from(dirty.Steps[i])
		if dirty.total() > halfOf*g.Rate*dirty.width() {
			return g
		}
	}
	g.because(OldMaps)
	return g
}

// worker judges the private memory of a process that makes no steps. What a fork shares with its parent is private
// memory of both; written to, it is copied, which only the pages that nobody shares tell. They can't be more than all.
func (p Process) worker() Growth {
	g := p.judge(p.Anon)
	if g.Verdict == Leak {
		return g
	}
	copied := p.judge(p.Unshared)
	if copied.Verdict != Leak {
		return g
	}
	copied.because(Copies)
	if all := p.Anon.clean(); len(all.Bytes) > 0 {
		copied.Needs = math.Ceil(max(1, (all.Bytes[len(all.Bytes)-1]-copied.Level)/copied.Rate))
	}
	return copied
}
