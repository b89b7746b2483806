package alloc

import "math/bits"

// PyTorch's constants: c10/core/CachingDeviceAllocator.h and c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize and those
// after it. TestRecordedTrainings (internal/judge/replay) checks them against recorded trainings, TestAgainstNaive
// against a second reading of the source.
const (
	minBlock      = 512      // all blocks are multiples of it
	smallSize     = 1 << 20  // the largest request of the small pool
	smallBuffer   = 2 << 20  // what the small pool requests from the driver
	largeBuffer   = 20 << 20 // what requests from 1 to 10 MiB request from the driver
	minLargeAlloc = 10 << 20 // requests from here on get a segment of their own …
	roundLarge    = 2 << 20  // … rounded up to this
	maxRequest    = 1 << 56  // no device has as much; sums of such sizes still fit into 64 bits
)

// rules are the parameters of a policy. All other code is the same for each of them.
type rules struct {
	policy    Policy
	maxSplit  int64 // blocks from this size on are not split
	unsplit   int64 // bytes by which such a block may exceed the request that it serves
	largeSeg  int64 // what a request from 1 to 10 MiB requests from the driver
	fromMiB   bool  // a request of 1 MiB is a large one, and none that is smaller
	divisions [16]int64
	divided   bool     // one of them is not 0
	keep      [2]int64 // a remainder of at least so many bytes is split off, in the small pool and in the large one
	page      [2]int64
	segment   int64 // Packed: the least bytes of a segment; 0: PyTorch's sizes
	virtual   bool  // segments are ranges of addresses that grow by pages
	cached    bool  // false: each block is a segment
	adaptive  bool
	uncut     int64 // a free segment of more bytes is not cut for a request of less than half of it
	choosy    bool  // the best fit is not always taken: see shard.suitable
}

const noLimit = 1<<63 - 1

func makeRules(o *Options) rules {
	r := rules{
		policy: o.Policy, maxSplit: noLimit, uncut: noLimit, divisions: o.RoundupDivisions, cached: true,
		keep: [2]int64{minBlock, smallSize + 1}, page: [2]int64{smallBuffer, o.largeSegment()},
		largeSeg: o.largeSegment(), unsplit: max(o.MaxNonSplitRounding, o.largeSegment()),
	}
	if o.LargeFromMiB {
		r.fromMiB = true
		r.keep[1]-- // a rest of 1 MiB is useful
	}
	r.divided = r.divisions != [16]int64{}
	if o.MaxSplitSize > 0 {
		r.maxSplit = o.MaxSplitSize
	}
	switch o.Policy {
	case Torch:
		r.virtual = o.ExpandableSegments
	case Packed:
		r.adaptive = o.Adaptive
		if o.SegmentSize == 0 && !o.Adaptive { // otherwise segments are meant to be cut
			r.uncut = packedUncut
		}
	case VMM:
		r.virtual, r.page = true, [2]int64{vmmPage, vmmPage}
	case Direct:
		r.cached = false
	}
	if o.Policy != Torch || r.virtual {
		r.keep[1] = minBlock
	}
	if o.SegmentSize > 0 {
		r.segment, r.page = o.SegmentSize, [2]int64{o.SegmentSize, o.SegmentSize}
	}
	r.choosy = r.virtual || r.maxSplit != noLimit || r.uncut != noLimit
	return r
}

// round returns the size of the block that serves a request.
func (r *rules) round(size int64) int64 {
	if r.divided {
		if n := r.divisions[divisionIndex(size)]; n > 1 && size > minBlock*n {
			return roundUpDivision(size, n)
		}
	}
	return (size + minBlock - 1) &^ (minBlock - 1)
}

// divisionIndex is CUDAAllocatorConfig::roundup_power2_divisions.
func divisionIndex(size int64) int { return min(max(bits.Len64(uint64(size))-21, 0), 15) }

// roundUpDivision rounds up to the next n-th between two powers of two (roundup_power2_next_division). n is a power of
// two.
func roundUpDivision(size, n int64) int64 {
	if size&(size-1) == 0 {
		return size
	}
	floor := int64(1) << (bits.Len64(uint64(size)) - 1)
	step := floor >> (bits.Len64(uint64(n)) - 1)
	if step == 0 {
		return floor << 1
	}
	return (size + step - 1) &^ (step - 1)
}

// large reports to which pool a request for so many bytes belongs, which a block of size bytes serves. PyTorch decides
// by the block (get_pool).
func (r *rules) large(request, size int64) bool {
	if r.fromMiB {
		return request >= smallSize
	}
	return size > smallSize
}

// splits reports whether size bytes are cut off the front of a free block of have bytes.
func (r *rules) splits(have, size int64, large bool) bool {
	return have-size >= r.keep[one(large)&1] && (size < r.maxSplit || r.virtual || !large)
}

// segmentSize returns the size to request from the driver for a block of size bytes (get_allocation_size).
func (r *rules) segmentSize(size int64, large bool) int64 {
	switch {
	case !r.cached:
		return size
	case !large:
		return smallBuffer
	case size < minLargeAlloc:
		return r.largeSeg
	default:
		return roundUp(size, roundLarge)
	}
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
