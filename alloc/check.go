package alloc

import "fmt"

// check panics when the shard's state contradicts itself. It runs after each operation in builds with the tag
// invariants or under the race detector, and walks over everything: blocks tile their segment, no two free ones are
// neighbours, bins and bitmap agree with the blocks, gauges with the sums, and hits + misses with the allocations.
func (s *shard) check() {
	if err := s.verify(); err != nil {
		panic(fmt.Errorf("alloc: stream %#x: %w", uint64(s.stream), err))
	}
}

func (s *shard) verify() error {
	s.mirror()
	var sums [numGauges]int64
	listed := map[blockID]bool{} // free and unmapped blocks, which must be found in the pools
	liveBlocks := 0
	for i := range s.segs.at {
		if seg := &s.segs.at[i]; seg.used {
			n, err := s.verifySegment(segID(i), seg, &sums, listed)
			if err != nil {
				return err
			}
			liveBlocks += n
		}
	}
	if s.index.used != liveBlocks {
		return fmt.Errorf("the index has %d blocks, the segments %d live ones", s.index.used, liveBlocks)
	}
	for i := range s.pools {
		if err := s.verifyPool(&s.pools[i], listed); err != nil {
			return err
		}
	}
	if len(listed) > 0 {
		return fmt.Errorf("%d free blocks are in no list", len(listed))
	}
	for scope := range numScopes {
		sums[int(cachedBytes)*numScopes+scope] = sums[int(reservedBytes)*numScopes+
			scope] - sums[int(allocatedBytes)*numScopes+scope]
	}
	for i := range sums {
		if sums[i] != s.cur[i] {
			return fmt.Errorf("gauge %d/%d is %d, the blocks say %d", i/numScopes, i%numScopes, s.cur[i], sums[i])
		}
	}
	return s.verifyOrder()
}

func (s *shard) verifySegment(sid segID, seg *segment, sums *[numGauges]int64, listed map[blockID]bool) (liveBlocks int,
	err error) {
	add := func(m metric, n int64) {
		sums[int(m)*numScopes] += n
		sums[int(m)*numScopes+scopeOf(seg.large)] += n
	}
	at, end := seg.addr, seg.addr+uint64(seg.size)
	var last blockID
	var mapped int64
	for id := seg.first; id != 0; last, id = id, s.blocks.at[id].next {
		b := &s.blocks.at[id]
		if b.addr != at || b.prev != last || b.seg != sid || b.large != seg.large || b.size <= 0 {
			return 0, fmt.Errorf("block %#x of segment %#x does not follow %#x", b.addr, seg.addr, at)
		}
		if last != 0 && b.state == s.blocks.at[last].state && b.state != live && b.state != pending {
			return 0, fmt.Errorf("blocks %#x and the one before it are both %d", b.addr, b.state)
		}
		at += uint64(b.size)
		if b.state != unmapped {
			mapped += b.size
		}
		switch b.state {
		case live:
			liveBlocks++
			add(allocations, 1)
			add(allocatedBytes, b.size)
			add(usedBytes, b.requested)
			if slot := s.index.slot(s.blocks.at, b.addr); slot < 0 || s.index.id(slot) != id {
				return 0, fmt.Errorf("live block %#x is not in the index", b.addr)
			}
			fallthrough
		case pending:
			add(activeBlocks, 1)
			add(activeBytes, b.size)
			add(requestedBytes, b.requested)
			if b.requested <= 0 || b.requested > b.size {
				return 0, fmt.Errorf("block %#x of %d bytes serves a request of %d", b.addr, b.size, b.requested)
			}
			if b.size >= s.r.maxSplit {
				add(oversizeBlocks, 1)
			}
		case free, unmapped:
			listed[id] = true
			if b.state == free && !seg.virtual && b.prev|b.next != 0 {
				add(splitBlocks, 1)
				add(splitBytes, b.size)
			}
		default:
			return 0, fmt.Errorf("block %#x is in no state", b.addr)
		}
	}
	if at != end || mapped != seg.mapped {
		return 0, fmt.Errorf("segment %#x of %d bytes: blocks end at %#x, %d mapped (noted %d)", seg.addr, seg.size, at,
			mapped, seg.mapped)
	}
	add(reservedBytes, mapped)
	if !seg.virtual {
		add(segments, 1)
		if seg.size >= s.r.maxSplit {
			add(oversizeSegments, 1)
		}
	}
	return liveBlocks, nil
}

func (s *shard) verifyPool(p *pool, listed map[blockID]bool) error {
	ids := p.all(s.blocks.at)
	for i, id := range ids {
		b := &s.blocks.at[id]
		if !listed[id] || b.state != free || b.large != p.large {
			return fmt.Errorf("block %#x in the bins is not a free block of the pool", b.addr)
		}
		if i > 0 && !less(&s.blocks.at[ids[i-1]], b) {
			return fmt.Errorf("block %#x is out of order in the bins", b.addr)
		}
		delete(listed, id)
	}
	if p.count != len(ids) {
		return fmt.Errorf("the bins count %d blocks, and have %d", p.count, len(ids))
	}
	for i := range p.bins.bins {
		if bin := &p.bins.bins[i]; (bin.root|bin.fresh != 0) != (p.words[i>>6]>>(i&63)&1 != 0) {
			return fmt.Errorf("bin %d and its bit disagree", i)
		}
	}
	for w, word := range p.words {
		if (word != 0) != (p.summary>>w&1 != 0) {
			return fmt.Errorf("word %d of the bins and its bit disagree", w)
		}
	}
	for i, id := range p.unmapped {
		b := &s.blocks.at[id]
		if !listed[id] || b.state != unmapped || (i > 0 && s.blocks.at[p.unmapped[i-1]].addr >= b.addr) {
			return fmt.Errorf("block %#x in the list of unmapped ones is not", b.addr)
		}
		delete(listed, id)
	}
	return nil
}

func (s *shard) verifyOrder() error {
	for scope := range numScopes {
		v := func(m metric) int64 { return s.cur[int(m)*numScopes+scope] }
		if v(usedBytes) > v(allocatedBytes) || v(allocatedBytes) > v(activeBytes) || v(activeBytes) > v(reservedBytes) {
			return fmt.Errorf("not in order: used %d, allocated %d, active %d, reserved %d",
				v(usedBytes), v(allocatedBytes), v(activeBytes), v(reservedBytes))
		}
		if v(cachedBytes) != v(reservedBytes)-v(allocatedBytes) {
			return fmt.Errorf("cached %d, reserved %d, allocated %d", v(cachedBytes), v(reservedBytes),
				v(allocatedBytes))
		}
		for i := scope; i < numGauges; i += numScopes {
			if s.cur[i] > s.limit[i] {
				return fmt.Errorf("gauge %d is %d, beyond its limit %d", i/numScopes, s.cur[i], s.limit[i])
			}
		}
	}
	if n := s.sums()[int(allocations)*numScopes]; int64(s.hits+s.misses) != n {
		return fmt.Errorf("%d hits and %d misses of %d allocations", s.hits, s.misses, n)
	}
	return nil
}

// Check verifies the whole state and returns what it finds wrong: always nil, if the code is right. It is for tests; it
// stops all operations while it walks over all blocks.
func (a *Allocator) Check() error {
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	a.deal()
	all := *a.shards.Load()
	for _, s := range all {
		if err := s.verify(); err != nil {
			return fmt.Errorf("stream %#x: %w", uint64(s.stream), err)
		}
	}
	sums := sumOf(all)
	if got := sums[int(reservedBytes)*numScopes]; got != a.reserved {
		return fmt.Errorf("segments have %d bytes, %d are reserved", got, a.reserved)
	}
	return nil
}
