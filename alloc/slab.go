package alloc

// blockID and segID index a shard's slabs. 0 is none: slot 0 is never used.
type (
	blockID uint32
	segID   uint32
)

// state is a block's state from its owner's view.
type state uint8

const (
	unused   state = iota // a slot of the slab that holds no block
	free                  // cached: in its pool's bins
	live                  // handed out
	pending               // freed by its owner, still in use on other streams
	unmapped              // addresses without memory: in its pool's list of unmapped ranges
)

// block is a range of a segment. It contains no Go pointers, so that the garbage collector never scans the slab, and it
// is one cache line.
type block struct {
	addr      uint64
	size      int64
	requested int64 // bytes that the caller requested; live and pending blocks
	// live, pending: stamp of the allocation, 0 without events; free: the pool's count of searches when it became free
	since      int64
	prev, next blockID // neighbours in the segment, by address
	// children in the bin's tree, or the blocks before and after in its list; left also links the slab's free slots
	left  blockID
	right blockID
	seg   segID
	stack StackID // of the allocation
	// live: owners, 1 after Alloc, one more for each Retain; pending: marks that the device has not passed
	refs  int32
	state state
	large bool // pool
	used  bool // a stream was recorded on it: see shard.uses
	fresh bool // free: in its bin's list, not in the tree
}

// segment is what the driver gave in one piece, or a range of virtual addresses.
type segment struct {
	addr    uint64
	size    int64
	mapped  int64 // bytes with memory behind them: size, unless virtual
	first   blockID
	used    bool
	large   bool
	virtual bool
}

// slab hands out slots by number and takes them back.
type blockSlab struct {
	at   []block
	head blockID // of the list of free slots, linked by left
}

func (s *blockSlab) get() blockID {
	if id := s.head; id != 0 {
		s.head = s.at[id].left
		return id
	}
	if len(s.at) == 0 {
		s.at = make([]block, 1, 64)
	}
	s.at = append(s.at, block{})
	return blockID(len(s.at) - 1)
}

func (s *blockSlab) put(id blockID) {
	s.at[id] = block{left: s.head}
	s.head = id
}

type segSlab struct {
	at   []segment
	free []segID
}

func (s *segSlab) get() segID {
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	if len(s.at) == 0 {
		s.at = make([]segment, 1, 16)
	}
	s.at = append(s.at, segment{})
	return segID(len(s.at) - 1)
}

func (s *segSlab) put(id segID) {
	s.at[id] = segment{}
	s.free = append(s.free, id)
}
