package alloc

import (
	"errors"
	"fmt"
	"slices"
)

// vmmPage is the granularity of CUDA's virtual memory.
const vmmPage = 2 << 20

// extendVirtual maps pages until there is a free block of at least size bytes. It maps at the lowest unmapped addresses
// that, together with the free blocks before and after them, are large enough (try_allocate_expandable_block). If the
// device runs out meanwhile, what was mapped stays in the pool.
func (a *Allocator) extendVirtual(s *shard, p *pool, size int64) (blockID, error) {
	id, err := a.findRoom(s, p, size)
	if err != nil {
		return 0, err
	}
	if s.blocks.at[id].state == unmapped {
		if id, err = a.mapBlock(s, p, id, min(s.blocks.at[id].size, size)); err != nil {
			return 0, err
		}
	}
	for s.blocks.at[id].size < size {
		next := s.blocks.at[id].next // unmapped: two free blocks are never neighbours
		if id, err = a.mapBlock(s, p, next, min(s.blocks.at[next].size, size-s.blocks.at[id].size)); err != nil {
			return 0, err
		}
	}
	p.remove(s.blocks.at, id)
	return id, nil
}

// findRoom returns the first block of a run of free and unmapped ones that has size bytes, in new addresses if
// necessary.
func (a *Allocator) findRoom(s *shard, p *pool, size int64) (blockID, error) {
	at := s.blocks.at
	for _, id := range p.unmapped {
		if prev := at[id].prev; prev != 0 && at[prev].state == free {
			id = prev
		}
		var room int64
		for n := id; n != 0 && room < size && (at[n].state == free || at[n].state == unmapped); n = at[n].next {
			room += at[n].size
		}
		if room >= size {
			return id, nil
		}
	}
	page := a.r.pageOf(p.large)
	// pages may have to move to the end: more addresses than memory
	bytes := roundUp(max(a.total+a.total/8, size), page)
	ptr, err := a.virtual.Reserve(bytes)
	if err != nil {
		return 0, fmt.Errorf("driver: reserve addresses: %w", err)
	}
	id := s.addSegment(p, uint64(ptr), bytes, true)
	a.dir.add(uint64(ptr), bytes, s.num)
	p.insertUnmapped(s.blocks.at, id)
	return id, nil
}

func (r *rules) pageOf(large bool) int64 {
	if large {
		return r.page[1]
	}
	return r.page[0]
}

// mapBlock puts memory behind the front of an unmapped block, joins it with free neighbours and returns the free block.
func (a *Allocator) mapBlock(s *shard, p *pool, id blockID, size int64) (blockID, error) {
	b := &s.blocks.at[id]
	size = min(roundUp(size, a.r.pageOf(p.large)), b.size)
	if size > a.limit-a.reserved {
		return 0, fmt.Errorf("%w: the cap of %d bytes", ErrNoMemory, a.limit)
	}
	a.driven.Map++
	if err := a.virtual.Map(Ptr(b.addr), size); err != nil {
		return 0, fmt.Errorf("driver: map: %w", err)
	}
	addr := b.addr
	p.removeUnmapped(s.blocks.at, id)
	if rest := b.size - size; rest > 0 {
		s.cut(id, size, unmapped)
		p.insertUnmapped(s.blocks.at, s.blocks.at[id].next)
	}
	b = &s.blocks.at[id]
	b.state, b.since = free, int64(p.searches)
	s.segs.at[b.seg].mapped += size
	id = s.merge(p, id)
	p.insert(s.blocks.at, id)
	a.reserve(s, p, size)
	a.note(s, EventSegmentMap, addr, size)
	return id, nil
}

// unmapBlock gives back the whole pages of a free block, and its addresses when nothing else is in the segment.
func (a *Allocator) unmapBlock(s *shard, p *pool, id blockID) error {
	page := uint64(a.r.pageOf(p.large))
	b := s.blocks.at[id]
	base := s.segs.at[b.seg].addr
	from := base + (b.addr-base+page-1)/page*page
	to := base + (b.addr+uint64(b.size)-base)/page*page
	if from >= to {
		return nil
	}
	size := int64(to - from)
	a.driven.Unmap++
	if err := a.virtual.Unmap(Ptr(from), size); err != nil {
		return fmt.Errorf("driver: unmap: %w", err)
	}
	p.remove(s.blocks.at, id)
	if before := int64(from - b.addr); before > 0 {
		s.cut(id, before, free)
		front := id
		id = s.blocks.at[id].next
		p.insert(s.blocks.at, front)
	}
	if s.blocks.at[id].size > size {
		s.cut(id, size, free)
		p.insert(s.blocks.at, s.blocks.at[id].next)
	}
	s.blocks.at[id].state = unmapped
	s.segs.at[b.seg].mapped -= size
	id = s.merge(p, id)
	p.insertUnmapped(s.blocks.at, id)
	a.reserve(s, p, -size)
	a.note(s, EventSegmentUnmap, from, size)
	return a.dropAddresses(s, p, id)
}

func (a *Allocator) dropAddresses(s *shard, p *pool, id blockID) error {
	b := s.blocks.at[id]
	if !s.whole(id) {
		return nil
	}
	if err := a.virtual.Release(Ptr(b.addr), b.size); err != nil {
		return fmt.Errorf("driver: release addresses: %w", err)
	}
	p.removeUnmapped(s.blocks.at, id)
	a.dir.remove(b.addr, b.size)
	s.dropSegment(id)
	return nil
}

// cut turns the part of a block after size bytes into a block of the given state; both are in no list.
func (s *shard) cut(id blockID, size int64, st state) {
	rest := s.blocks.get()
	b, r := &s.blocks.at[id], &s.blocks.at[rest]
	*r = block{
		addr: b.addr + uint64(size), size: b.size - size, prev: id, next: b.next,
		seg: b.seg, large: b.large, state: st, since: b.since,
	}
	s.blocks.at[r.next].prev = rest // of slot 0, if there is none
	b.next, b.size = rest, size
}

func (p *pool) unmappedAt(at []block, addr uint64) (int, bool) {
	return slices.BinarySearchFunc(p.unmapped, addr, func(id blockID, addr uint64) int {
		switch a := at[id].addr; {
		case a < addr:
			return -1
		case a > addr:
			return 1
		}
		return 0
	})
}

func (p *pool) insertUnmapped(at []block, id blockID) {
	i, _ := p.unmappedAt(at, at[id].addr)
	p.unmapped = slices.Insert(p.unmapped, i, id)
}

func (p *pool) removeUnmapped(at []block, id blockID) {
	i, ok := p.unmappedAt(at, at[id].addr)
	if !ok {
		panic(errors.New("alloc: an unmapped block is not in its list")) // a fault of ours: see check
	}
	p.unmapped = slices.Delete(p.unmapped, i, i+1)
}
