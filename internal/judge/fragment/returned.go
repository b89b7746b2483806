package fragment

// heapMost is the alignment of glibc's arenas on 64-bit machines (malloc/arena.c: HEAP_MAX_SIZE, which is
// 2·DEFAULT_MMAP_THRESHOLD_MAX).
const heapMost = 64 << 20

// Mapping is a range of a process's address space. Sizes are bytes.
type Mapping struct {
	Start, Size uint64
	Resident    int64
	Heap        bool // the kernel calls it [heap]: it ends at the program break
	Writable    bool
	File        bool // it shows a file
}

// Return removes from a heap's holes what no longer has pages behind it: malloc_trim(3) keeps the holes, as address
// space, and gives their pages back to the kernel. Memory that was requested and never used looks the same, and counts
// the same.
func (s *State) Return(maps []Mapping) {
	absent := int64(0)
	for _, m := range maps {
		if m.Writable && !m.File && (m.Heap || m.Start%heapMost == 0) {
			absent += max(0, int64(m.Size)-m.Resident)
		}
	}
	s.Absent += min(absent, s.Holes.Bytes+s.Spare)
	s.Reclaimable = max(0, s.Reclaimable-absent)
}

// Lost is the memory that the holes take: Holes.Bytes less what has been given back.
func (s *State) Lost() int64 { return max(0, s.Holes.Bytes-s.Absent) }
