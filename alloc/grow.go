package alloc

import (
	"errors"
	"fmt"
)

// miss gets memory for a request that no free block serves. It collects old segments, calls the driver, releases what
// can be released and calls it again, then the callbacks. It returns a block that is in no list, or an error with the
// shard unlocked.
func (a *Allocator) miss(s *shard, p *pool, size int64, q Request) (blockID, error) {
	for tries := 0; ; tries++ {
		a.enter(s)
		id, err := a.grow(s, p, size)
		if err == nil {
			a.mu.Unlock()
			return id, nil
		}
		if !errors.Is(err, ErrNoMemory) {
			a.mu.Unlock()
			a.finish(s)
			return 0, fmt.Errorf("allocate %d bytes: %w", q.Size, err)
		}
		oom := a.outOfMemory(s, size, q)
		callbacks := a.onOOM
		a.mu.Unlock()
		a.finish(s)
		if tries >= maxCallbackRounds || !oom.possible() || !anyCallback(callbacks, oom) {
			a.countOOM(s, oom, q)
			return 0, oom
		}
		s.mu.Lock()
		if id := s.take(p, size); id != 0 {
			return id, nil
		}
	}
}

// grow tries, in this order, to find the memory. The caller holds s and the device lock.
func (a *Allocator) grow(s *shard, p *pool, size int64) (blockID, error) {
	if a.closed {
		return 0, ErrClosed
	}
	if size > min(a.limit, a.total) {
		// fail fast: no release would be enough
		return 0, fmt.Errorf("%w: more than the device has", ErrNoMemory)
	}
	if a.held > 0 {
		return a.extend(s, p, size) // nothing may be given back to the driver now; PyTorch doesn't either
	}
	if a.opt.GCThreshold > 0 {
		if err := a.collect(s); err != nil {
			return 0, err
		}
	}
	if a.opt.FragmentationThreshold > 0 {
		if err := a.defragment(s); err != nil {
			return 0, err
		}
	}
	if a.r.policy == Packed || a.r.policy == VMM {
		if err := a.reclaim(s, p, size); err != nil {
			return 0, err
		}
	}
	id, err := a.extend(s, p, size)
	if err == nil || !errors.Is(err, ErrNoMemory) {
		return id, err
	}
	if a.opt.ThrowOnFull && a.limit < a.total { // PyTorch checks whether a fraction was set
		return 0, err
	}
	if released, rerr := a.releaseOversize(s, p, size); rerr != nil {
		return 0, rerr
	} else if released {
		if id, err = a.extend(s, p, size); err == nil || !errors.Is(err, ErrNoMemory) {
			return id, err
		}
	}
	thaw := a.freeze(s)
	_, rerr := a.releaseAll()
	a.deal()
	thaw()
	if rerr != nil {
		return 0, rerr
	}
	a.retries++
	if id := s.take(p, size); id != 0 { // a block whose marks have been passed
		return id, nil
	}
	return a.extend(s, p, size)
}

// extend gets a segment, or more pages of one.
func (a *Allocator) extend(s *shard, p *pool, size int64) (blockID, error) {
	if a.r.virtual {
		id, err := a.extendVirtual(s, p, size)
		if err != nil {
			// pages that were mapped before the device ran out; the release that follows works on all pools
			s.settleGrowth(p)
		}
		return id, err
	}
	if a.r.policy == Packed {
		return a.extendPacked(s, p, size)
	}
	return a.newSegment(s, p, a.r.segmentSize(size, p.large))
}

// newSegment requests one segment of so many bytes from the driver.
func (a *Allocator) newSegment(s *shard, p *pool, bytes int64) (blockID, error) {
	if bytes > a.limit-a.reserved {
		return 0, fmt.Errorf("%w: the cap of %d bytes", ErrNoMemory, a.limit)
	}
	a.driven.Alloc++
	ptr, err := a.drv.Alloc(bytes)
	if err != nil {
		return 0, fmt.Errorf("driver: %w", err)
	}
	return a.adopt(s, p, uint64(ptr), bytes), nil
}

// adopt makes a segment of memory that the driver has given.
func (a *Allocator) adopt(s *shard, p *pool, addr uint64, bytes int64) blockID {
	id := s.addSegment(p, addr, bytes, false)
	a.dir.add(addr, bytes, s.num)
	scope := scopeOf(p.large)
	s.add(segments, scope, 1)
	if bytes >= a.r.maxSplit {
		s.add(oversizeSegments, scope, 1)
	}
	a.reserve(s, p, bytes)
	a.note(s, EventSegmentAlloc, addr, bytes)
	return id
}

// reserve counts memory from the driver (negative: given back).
func (a *Allocator) reserve(s *shard, p *pool, bytes int64) {
	a.reserved += bytes
	s.grown += bytes
	s.add(reservedBytes, scopeOf(p.large), bytes)
}

// settleGrowth counts as cached what the operation got and did not hand out.
func (s *shard) settleGrowth(p *pool) {
	if s.grown != 0 {
		s.add(cachedBytes, scopeOf(p.large), s.grown)
		s.grown = 0
	}
}

func (a *Allocator) note(s *shard, kind EventKind, addr uint64, size int64) {
	if a.timed.Load() {
		*s.ring.next() = record{time: a.stamp(s), addr: addr, size: size, kind: kind}
	}
}

// defragment gives free segments back when too large a share of the reserved bytes serves nobody: the request that is
// about to raise the reserved bytes could not use them. The caller holds s and the device lock.
func (a *Allocator) defragment(s *shard) error {
	thaw := a.freeze(s)
	defer thaw()
	cached := sumOf(*a.shards.Load())[int(cachedBytes)*numScopes]
	if a.reserved == 0 || float64(cached)/float64(a.reserved) <= a.opt.FragmentationThreshold {
		return nil
	}
	_, err := a.releaseAll()
	a.deal()
	return err
}

// trim gives back the segment of a block that has just become free, if nothing else is in it and too much is cached.
// The caller holds s and the device lock.
func (a *Allocator) trim(s *shard, id blockID) error {
	thaw := a.freeze(s)
	defer thaw()
	if s.kept || a.held > 0 || sumOf(*a.shards.Load())[int(cachedBytes)*numScopes] <= a.opt.MaxCached {
		return nil
	}
	b := &s.blocks.at[id]
	switch {
	case s.segs.at[b.seg].virtual:
		if a.streams != nil {
			if err := a.streams.WaitAll(); err != nil {
				return err
			}
		}
		p := s.poolOf(b.large)
		err := a.unmapBlock(s, p, id)
		s.settleGrowth(p)
		return err
	case s.whole(id):
		return a.releaseBlock(s, id, true)
	}
	return nil
}

// releaseBlock gives a free block that is a whole segment back to the driver. listed says whether it is in its bin.
func (a *Allocator) releaseBlock(s *shard, id blockID, listed bool) error {
	b := s.blocks.at[id]
	p, scope := s.poolOf(b.large), scopeOf(b.large)
	a.driven.Free++
	if err := a.drv.Free(Ptr(b.addr), b.size); err != nil {
		return fmt.Errorf("driver: free segment %#x: %w", b.addr, err)
	}
	if listed {
		p.remove(s.blocks.at, id)
	}
	s.dropSegment(id)
	a.dir.remove(b.addr, b.size)
	s.add(segments, scope, -1)
	if b.size >= a.r.maxSplit {
		s.add(oversizeSegments, scope, -1)
	}
	a.reserve(s, p, -b.size)
	s.settleGrowth(p)
	a.note(s, EventSegmentFree, b.addr, b.size)
	return nil
}

// releaseOversize frees cached blocks of at least max_split_size, as many as the request needs
// (release_available_cached_blocks).
func (a *Allocator) releaseOversize(s *shard, p *pool, size int64) (bool, error) {
	if a.r.maxSplit == noLimit || a.r.virtual {
		return false, nil
	}
	need := max(size, a.r.maxSplit)
	if id := p.best(s.blocks.at, need); id != 0 {
		if !s.whole(id) {
			return false, nil
		}
		return true, a.releaseBlock(s, id, true)
	}
	var released int64
	for released < need {
		id := p.last(s.blocks.at)
		if id == 0 || s.blocks.at[id].size < a.r.maxSplit || !s.whole(id) {
			break
		}
		released += s.blocks.at[id].size
		if err := a.releaseBlock(s, id, true); err != nil {
			return false, err
		}
	}
	return released >= need, nil
}

// whole reports whether the block is its whole segment.
func (s *shard) whole(id blockID) bool { return s.blocks.at[id].prev|s.blocks.at[id].next == 0 }

// releaseAll waits for all marks and gives back every segment and page that nobody uses. The caller holds the device
// lock and has frozen the shards. It returns how many bytes were given back.
func (a *Allocator) releaseAll() (int64, error) {
	before := a.reserved
	var errs []error
	a.syncs++
	if a.r.virtual && a.streams != nil {
		errs = append(errs, a.streams.WaitAll()) // pages of freed blocks may still be in use on their stream
	}
	for _, s := range *a.shards.Load() {
		if len(s.waiting) > 0 {
			errs = append(errs, a.passMarksLocked(s, true))
		}
		if s.kept {
			continue
		}
		for i := range s.pools {
			errs = append(errs, a.releasePool(s, &s.pools[i]))
		}
	}
	return before - a.reserved, errors.Join(errs...)
}

func (a *Allocator) releasePool(s *shard, p *pool) error {
	var errs []error
	for _, id := range p.all(s.blocks.at) {
		switch {
		case s.segs.at[s.blocks.at[id].seg].virtual:
			errs = append(errs, a.unmapBlock(s, p, id))
		case s.whole(id):
			errs = append(errs, a.releaseBlock(s, id, true))
		}
	}
	s.settleGrowth(p)
	return errors.Join(errs...)
}

// collect frees cached segments of at least average age when more than the threshold is reserved. It repeats that until
// less is reserved or no such segment is left (garbage_collect_cached_blocks). An age is the number of searches of the
// pool since the block became free, so a run is the same every time. The caller holds s and the device lock.
func (a *Allocator) collect(s *shard) error {
	target := a.reserved - int64(a.opt.GCThreshold*float64(min(a.limit, a.total)))
	if target <= 0 || a.r.virtual {
		return nil
	}
	thaw := a.freeze(s)
	defer thaw()
	old, total := a.idleSegments()
	for target > 0 && len(old) > 0 {
		average, kept := float64(total)/float64(len(old)), old[:0]
		for _, o := range old {
			if float64(o.age) < average {
				kept = append(kept, o)
				continue
			}
			target -= o.s.blocks.at[o.id].size
			total -= o.age
			if err := a.releaseBlock(o.s, o.id, true); err != nil {
				return err
			}
		}
		old = kept
	}
	a.deal()
	return nil
}

type idleSegment struct {
	s   *shard
	id  blockID
	age uint64
}

// idleSegments lists the large pools' segments that are one free block, with the sum of their ages.
func (a *Allocator) idleSegments() (idle []idleSegment, total uint64) {
	for _, s := range *a.shards.Load() {
		if s.kept {
			continue
		}
		p := &s.pools[1]
		for _, id := range p.all(s.blocks.at) {
			if s.whole(id) {
				age := p.searches - uint64(s.blocks.at[id].since)
				idle = append(idle, idleSegment{s, id, age})
				total += age
			}
		}
	}
	return idle, total
}
