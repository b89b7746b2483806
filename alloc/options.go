package alloc

import (
	"fmt"
	"slices"
	"strings"
)

// Policy names a set of rules: how requests are rounded, how much is requested from the driver, what is split.
type Policy string

const (
	Torch  Policy = "torch"  // PyTorch's rules, to the byte (expandable segments too, by Options.ExpandableSegments)
	Packed Policy = "packed" // segments that fit, given back before more is reserved; needs no virtual memory
	VMM    Policy = "vmm"    // segments of virtual addresses that grow page by page
	// no cache: each block is an allocation of the driver, for finding faults and for comparison
	Direct Policy = "direct"
)

// Policies lists all of them, in the order in which tables show them.
var Policies = []Policy{Torch, Packed, VMM, Direct}

// Options are the settings of an Allocator. The zero value is PyTorch's default behaviour without events.
type Options struct {
	Policy Policy // "" is Torch
	Device int    // the device's number, for messages and snapshots

	MaxSplitSize int64 // bytes; blocks from this size on are not split; 0: no limit (max_split_size_mb)
	// round requests up to a 2^k/n; [0] is n below 2 MiB, [i] from 2^(20+i) bytes on; 0, 1: don't round
	RoundupDivisions [16]int64
	// LargeSegmentSize is what a request from 1 to 10 MiB requests from the driver, in bytes, and the size of Torch's
	// expandable large pages; 0: 20 MiB (large_segment_size_mb).
	LargeSegmentSize int64
	// MaxNonSplitRounding is by how many bytes an unsplit block may exceed a request of at least MaxSplitSize; 0: those
	// of LargeSegmentSize (max_non_split_rounding_mb).
	MaxNonSplitRounding int64
	// ThrowOnFull makes a request that would exceed MemoryFraction fail at once, without a release of the cache, if a
	// fraction is set (throw_on_cudamalloc_oom; https://github.com/pytorch/pytorch/pull/179473).
	ThrowOnFull        bool
	GCThreshold        float64 // share of the cap above which old cached segments are freed before growing; 0: never
	ExpandableSegments bool    // Torch: PyTorch's expandable segments, on a VirtualMemory driver
	SegmentSize        int64   // Packed, VMM: bytes of a segment (of a page run); 0: the policy's own choice
	MemoryFraction     float64 // share of the device's memory that may be reserved; 0: all

	// MaxCached gives a segment back when its last block is freed while more than so many bytes are cached; 0: never
	// (max_pool_size_mb). Blocks that other streams still used then stay cached.
	MaxCached int64
	// FragmentationThreshold gives free segments back before growing, when more than this share of the reserved bytes
	// is not allocated; 0: never.
	FragmentationThreshold float64

	WarmUp   []int64 // sizes in bytes; one block of each is cached at the start, counted as neither hit nor miss
	Adaptive bool    // Packed: segments are sized by recent requests (see packed.go)

	// LargeFromMiB makes a request of 1 MiB a large one, as in Genesis, and smaller ones small. PyTorch chooses the
	// pool by the rounded size (malloc calls round_size, then get_pool), and 1 MiB is small there.
	LargeFromMiB bool
	// Foreign says that the callers are not Go code: stacks are only those that they give.
	Foreign bool

	EventCapacity int  // how many events are kept; 0: none are recorded
	Debug         bool // stacks of allocation and free, and a ledger of freed blocks: see SetDebug

	// Clock returns nanoseconds for events, ages and lifetimes; nil: the process's monotonic clock.
	Clock func() int64
}

func (o *Options) check() error {
	if o.Policy == "" {
		o.Policy = Torch
	}
	if !slices.Contains(Policies, o.Policy) {
		return fmt.Errorf("policy %q: not one of %s", o.Policy, joinPolicies())
	}
	switch {
	case o.LargeSegmentSize < 0 || (o.LargeSegmentSize > 0 && o.LargeSegmentSize <= minLargeAlloc):
		return fmt.Errorf("large segments of %d bytes: more than %d, or 0 for %d", o.LargeSegmentSize,
			int64(minLargeAlloc), int64(largeBuffer))
	case o.MaxSplitSize < 0 || (o.MaxSplitSize > 0 && o.MaxSplitSize < o.largeSegment()):
		return fmt.Errorf("max_split_size of %d bytes: at least %d, or 0 for no limit", o.MaxSplitSize,
			o.largeSegment())
	case o.MaxNonSplitRounding < 0 || (o.MaxNonSplitRounding > 0 && o.MaxNonSplitRounding < o.largeSegment()):
		return fmt.Errorf("max_non_split_rounding of %d bytes: at least %d, or 0 for that", o.MaxNonSplitRounding,
			o.largeSegment())
	case o.GCThreshold < 0 || o.GCThreshold >= 1:
		return fmt.Errorf("garbage_collection_threshold %g: from 0 to below 1", o.GCThreshold)
	case o.MemoryFraction < 0 || o.MemoryFraction > 1:
		return fmt.Errorf("memory fraction %g: from 0 to 1", o.MemoryFraction)
	case o.SegmentSize < 0 || o.SegmentSize%minBlock != 0:
		return fmt.Errorf("segment size of %d bytes: a multiple of %d", o.SegmentSize, minBlock)
	case o.EventCapacity < 0:
		return fmt.Errorf("event capacity %d: below 0", o.EventCapacity)
	}
	return nil
}

func (o *Options) largeSegment() int64 {
	if o.LargeSegmentSize > 0 {
		return o.LargeSegmentSize
	}
	return largeBuffer
}

// BlockSize returns the size of the block that serves a request under these settings.
func (o *Options) BlockSize(requested int64) int64 {
	r := makeRules(o)
	return r.round(requested)
}

func joinPolicies() string {
	names := make([]string, len(Policies))
	for i, p := range Policies {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}
