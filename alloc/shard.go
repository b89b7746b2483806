package alloc

import (
	"sync"
	"sync/atomic"
)

// pool holds the free blocks of one size class on one stream.
type pool struct {
	bins
	unmapped []blockID // by address: ranges of virtual segments without memory
	searches uint64    // searches for a block so far: the clock of ages
	large    bool

	segment    int64 // adaptive: bytes of the next segment
	asked      int64 // adaptive: bytes of the last askedCount requests
	askedCount int64
}

// shard has everything that belongs to one stream. It has its own lock, so threads that work on different streams don't
// contend.
type shard struct {
	mu sync.Mutex
	// the goroutine that holds mu waits for the device lock and changes nothing: see Allocator.freeze
	parked atomic.Bool

	num uint32
	owner
	// a private pool in use: nothing is given back to the driver. Under the device lock, with s stopped
	kept bool
	r    *rules
	solo bool // the device's only shard

	blocks blockSlab
	segs   segSlab
	index  index
	pools  [2]pool
	counters
	grown  int64 // bytes from the driver in the present operation, not yet in cachedBytes
	hits   uint64
	misses uint64

	uses    map[blockID][]Stream // recorded streams of live blocks
	waiting []markQueue          // marks that the device has not passed, by stream
	ring    ring
	latest  int64 // stamp: see Allocator.stamp
	took    int64 // between two stamps: the last hit that was measured
}

// markQueue is a stream's marks in the order in which the device passes them.
type markQueue struct {
	stream Stream
	marks  []pendingMark
}

type pendingMark struct {
	mark Mark
	id   blockID
}

func (s *shard) poolOf(large bool) *pool { return &s.pools[one(large)&1] }

// take removes a free block of at least size bytes from the pool: the best fit, unless a limit on splitting forbids it
// (get_free_block). 0: there is none.
func (s *shard) take(p *pool, size int64) blockID {
	p.searches++
	at := s.blocks.at
	id := p.best(at, size)
	if id == 0 {
		return 0
	}
	if s.r.choosy {
		if id = s.suitable(p, id, size); id == 0 {
			return 0
		}
	}
	p.remove(at, id)
	return id
}

// suitable returns the block to take when the best fit may be unsuitable; 0: none.
func (s *shard) suitable(p *pool, id blockID, size int64) blockID {
	if s.r.virtual {
		id = s.leastGrowable(p, id)
	}
	have := s.blocks.at[id].size
	switch {
	case size < s.r.maxSplit && have >= s.r.maxSplit:
		return 0 // an oversized block is not for a small request …
	case size >= s.r.maxSplit && have >= size+s.r.unsplit:
		return 0 // … nor for one that would waste much of it
	case have > s.r.uncut && have > 2*size && s.whole(id):
		return 0
	}
	return id
}

// leastGrowable considers blocks that could grow into unmapped addresses, as PyTorch does: for best fit, their size is
// the one to which they can grow.
func (s *shard) leastGrowable(p *pool, id blockID) blockID {
	at := s.blocks.at
	for grown := s.growable(id); grown > at[id].size; { // one that can't grow is not larger than any after it
		next := p.after(at, id)
		if next == 0 {
			break
		}
		g := s.growable(next)
		if g >= grown {
			break
		}
		id, grown = next, g
	}
	return id
}

func (s *shard) growable(id blockID) int64 {
	b := &s.blocks.at[id]
	if b.next != 0 && s.blocks.at[b.next].state == unmapped {
		return b.size + s.blocks.at[b.next].size
	}
	return b.size
}

// handOut makes the free block id, which is in no bin, a live one, after cutting off what is not needed, and counts it.
func (s *shard) handOut(p *pool, id blockID, size, requested int64) blockID {
	b := &s.blocks.at[id]
	shared := one(!s.whole(id)) // 1: it was counted as a free block that shares its segment
	rest := b.size - size
	cut := s.r.splits(b.size, size, p.large)
	if !s.r.virtual {
		split := one(cut)
		scope := scopeOf(p.large)
		s.add(splitBlocks, scope, int64(split)-int64(shared))
		s.add(splitBytes, scope, rest&-int64(split)-b.size&-int64(shared))
	}
	if cut {
		s.split(p, id, size)
	}
	s.own(p, id, requested)
	return id
}

// own makes a block that is in no list a live one. It counts the block, and what the operation got from the driver.
func (s *shard) own(p *pool, id blockID, requested int64) {
	b, scope := &s.blocks.at[id], scopeOf(p.large)
	b.state, b.requested, b.refs = live, requested, 1
	s.index.put(b.addr, id)
	s.up(allocations, scope, 1)
	s.up(allocatedBytes, scope, b.size)
	s.up(usedBytes, scope, requested)
	s.add(cachedBytes, scope, s.grown-b.size)
	if s.active {
		s.up(activeBlocks, scope, 1)
		s.up(activeBytes, scope, b.size)
		s.up(requestedBytes, scope, requested)
	}
	s.grown = 0
	if b.size >= s.r.maxSplit {
		s.add(oversizeBlocks, scope, 1)
	}
}

// split cuts a block in two; the rear part becomes a free block.
func (s *shard) split(p *pool, id blockID, size int64) {
	rest := s.blocks.get()
	b, r := &s.blocks.at[id], &s.blocks.at[rest]
	*r = block{
		addr: b.addr + uint64(size), size: b.size - size, prev: id, next: b.next,
		seg: b.seg, large: b.large, state: free, since: int64(p.searches),
	}
	s.blocks.at[r.next].prev = rest // of slot 0, if there is none
	b.next, b.size = rest, size
	p.insert(s.blocks.at, rest)
}

// disown takes a live block from its owner. recycle follows, now or when the device has passed its marks.
func (s *shard) disown(id blockID, slot int) {
	b := &s.blocks.at[id]
	s.index.remove(slot)
	scope := scopeOf(b.large)
	b.refs = 0
	s.down(allocations, scope, 1)
	s.down(allocatedBytes, scope, b.size)
	s.down(usedBytes, scope, b.requested)
	s.up(cachedBytes, scope, b.size)
}

// recycle puts a block that nobody uses into its pool, together with free neighbours, and returns the merged block.
func (s *shard) recycle(id blockID) blockID {
	b := &s.blocks.at[id]
	p, scope := s.poolOf(b.large), scopeOf(b.large)
	if s.active {
		s.down(requestedBytes, scope, b.requested)
		s.down(activeBlocks, scope, 1)
		s.down(activeBytes, scope, b.size)
	}
	if b.size >= s.r.maxSplit {
		s.add(oversizeBlocks, scope, -1)
	}
	b.state, b.requested, b.refs, b.used, b.stack = free, 0, 0, false, 0
	var blocks, bytes int64
	at := s.blocks.at
	if o := b.prev; at[o].state == free { // slot 0 is in no state
		blocks, bytes = blocks-1, bytes-at[o].size
		p.remove(at, o)
		s.join(o, id)
		id = o
	}
	if o := at[id].next; at[o].state == free {
		blocks, bytes = blocks-1, bytes-at[o].size
		p.remove(at, o)
		s.join(id, o)
	}
	b = &at[id]
	b.since = int64(p.searches)
	p.insert(at, id)
	if !s.r.virtual {
		shared := int64(one(!s.whole(id)))
		s.add(splitBlocks, scope, blocks+shared)
		s.add(splitBytes, scope, bytes+b.size&-shared)
	}
	return id
}

// merge joins a block that is in no list with its neighbours in the same state, and returns the merged block.
func (s *shard) merge(p *pool, id blockID) blockID {
	at := s.blocks.at
	state := at[id].state
	if o := at[id].prev; at[o].state == state {
		s.delist(p, o)
		s.join(o, id)
		id = o
	}
	if o := at[id].next; at[o].state == state {
		s.delist(p, o)
		s.join(id, o)
	}
	return id
}

// delist takes a block that nobody uses out of its list.
func (s *shard) delist(p *pool, id blockID) {
	if s.blocks.at[id].state == unmapped {
		p.removeUnmapped(s.blocks.at, id)
	} else {
		p.remove(s.blocks.at, id)
	}
}

// join makes a block and the one after it, both in no list, one: the first.
func (s *shard) join(id, after blockID) {
	at := s.blocks.at
	b, o := &at[id], &at[after]
	b.size += o.size
	b.next = o.next
	at[o.next].prev = id // of slot 0, if there is none
	s.blocks.put(after)
}

// addSegment makes a segment of one block in the given state, which is in no list yet.
func (s *shard) addSegment(p *pool, addr uint64, size int64, virtual bool) blockID {
	sid, id := s.segs.get(), s.blocks.get()
	seg := segment{addr: addr, size: size, mapped: size, first: id, used: true, large: p.large, virtual: virtual}
	b := block{addr: addr, size: size, seg: sid, large: p.large, state: free, since: int64(p.searches)}
	if virtual {
		seg.mapped, b.state = 0, unmapped
	}
	s.segs.at[sid], s.blocks.at[id] = seg, b
	return id
}

// dropSegment drops a segment whose only block is in no list.
func (s *shard) dropSegment(id blockID) {
	s.segs.put(s.blocks.at[id].seg)
	s.blocks.put(id)
}
