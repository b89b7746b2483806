// Package fragment owns the free memory that lies between blocks in use: how much, in how many holes, how large they
// are, and what could be given back. It counts real blocks, as an allocator itself reports them: glibc's malloc_info on
// the host, the segments of PyTorch's caching allocator on a GPU. It never guesses from totals, and it queries no
// process.
package fragment

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// State is one allocator at one moment. Sizes are bytes.
type State struct {
	Source string // who reported it
	Held   int64  // what the allocator has from the kernel or the driver
	InUse  int64  // what the program holds of that
	Holes  Holes  // free, with blocks in use around it
	// Spare is free, in one piece, with nothing above it: whole segments in PyTorch's cache, the top of a heap. The
	// allocator can give it back at once.
	Spare int64
	// Reclaimable is what a defragmentation would give back: all spare memory, and of the holes the whole pages (host)
	// or everything (GPU, where blocks would move together).
	Reclaimable    int64
	Absent         int64 // held, but without pages behind it: given back to the kernel, or never used
	Untold         int64 // of segments whose blocks do not add up to them, as in files from which parts were removed
	LargestRequest int64 // the largest block in use: a size that was requested at least once; 0 if unknown
	Pieces         int   // arenas or segments
}

// Holes are free blocks.
type Holes struct {
	Count   int64
	Bytes   int64
	Largest int64
	Sizes   []Class // by size, smallest first
}

// Class counts the holes of one power of two.
type Class struct {
	From, To int64 // From ≤ size < To
	Count    int64
	Bytes    int64
}

// Percent is the share of the held memory that is in holes.
func (s *State) Percent() float64 {
	if s.Held <= 0 {
		return 0
	}
	return 100 * float64(s.Holes.Bytes) / float64(s.Held)
}

// Unfit reports that the holes together could hold the largest request, but none of them alone.
func (s *State) Unfit() bool {
	return s.LargestRequest > 0 && s.Holes.Bytes >= s.LargestRequest && s.Holes.Largest < s.LargestRequest &&
		s.Spare < s.LargestRequest
}

const (
	badShare = 25        // percent of the held memory: a quarter lost is worth a change of the allocator's settings
	badBytes = 256 << 20 // no job dies of less
)

// Bad reports whether action is worthwhile, by the present cost of the holes.
func (s *State) Bad() bool {
	lost := s.Lost()
	return lost >= badBytes && 100*float64(lost) >= badShare*float64(s.Held-s.Absent)
}

// Add adds another allocator's state to this one: bytes and holes add up.
func (s *State) Add(o State) {
	if s.Source == "" {
		s.Source = o.Source
	}
	s.Held += o.Held
	s.InUse += o.InUse
	s.Spare += o.Spare
	s.Absent += o.Absent
	s.Reclaimable += o.Reclaimable
	s.Untold += o.Untold
	s.Pieces += o.Pieces
	s.LargestRequest = max(s.LargestRequest, o.LargestRequest)
	largest := max(s.Holes.Largest, o.Holes.Largest)
	for _, c := range o.Holes.Sizes {
		s.Holes.add(c.From, c.To, c.Count, c.Bytes)
	}
	s.Holes.Largest = largest // add knows only the class's end
}

// add counts holes whose sizes lie between from and to, together so many bytes.
func (h *Holes) add(from, to, count, total int64) {
	if count <= 0 || total <= 0 {
		return
	}
	h.Count += count
	h.Bytes += total
	h.Largest = max(h.Largest, min(to, total))
	size := total / count
	low := int64(1) << max(0, bits.Len64(uint64(max(size, 1)))-1)
	i, found := slices.BinarySearchFunc(h.Sizes, low, func(c Class, low int64) int { return cmp.Compare(c.From, low) })
	if !found {
		h.Sizes = slices.Insert(h.Sizes, i, Class{From: low, To: 2 * low})
	}
	h.Sizes[i].Count += count
	h.Sizes[i].Bytes += total
}

// OfSegments counts the blocks of one device's segments.
func OfSegments(segments []snapshot.Segment, device int) State {
	s := State{Source: "PyTorch's caching allocator"}
	for _, seg := range segments {
		if seg.Device != device {
			continue
		}
		s.Pieces++
		s.Held += seg.Size
		s.ofSegment(seg)
	}
	s.Reclaimable = s.Spare + s.Holes.Bytes
	s.Untold = s.Held - s.InUse - s.Spare - s.Holes.Bytes
	return s
}

func (s *State) ofSegment(seg snapshot.Segment) {
	if len(seg.Blocks) == 1 && seg.Blocks[0].State == snapshot.Inactive || len(seg.Blocks) == 0 {
		s.Spare += seg.Size
		return
	}
	for _, b := range seg.Blocks {
		if b.State == snapshot.Inactive {
			s.Holes.add(b.Size, b.Size, 1, b.Size)
			continue
		}
		s.InUse += b.Size
		s.LargestRequest = max(s.LargestRequest, b.Size)
	}
}
