package alloc

import (
	"cmp"
	"errors"
	"slices"
)

// The policy packed needs no virtual memory and wastes little. Its segments are about as large as the requests that
// they are made for, and every remainder of a segment stays usable. Before the reserved bytes would exceed what is in
// use, free segments are given back to make room for the new one (reclaim); PyTorch frees them only when the device is
// full. In trainings that repeat their steps the driver is hardly called after the second step: the segments are then
// those that a step needs.

// reclaimSlack is the part of the highest allocated bytes by which the reserved bytes may exceed them before free
// segments are given back. It saves driver calls where sizes vary, and costs as much memory. docs/allocator.md has the
// results of other values.
const reclaimSlack = 64

// packedUncut is the size from which a free segment is not cut for a request of less than half of it. A small block
// that stays would hold the whole segment, and the request that the segment was made for would need a new one. A
// training whose batches differ in length wastes 4.2 % with this rule and 7.1 % without, for up to twice the driver
// calls; see docs/allocator.md.
const packedUncut = 64 << 20

// reclaim gives free segments back, the longest unused first, as many as the next one will take. The caller holds s and
// the device lock.
func (a *Allocator) reclaim(s *shard, p *pool, size int64) error {
	need := a.nextSegment(p, size)
	thaw := a.freeze(s)
	defer thaw()
	run, now := a.running(), sumOf(*a.shards.Load())
	const all = int(allocatedBytes) * numScopes
	a.high = max(a.high, run[all], now[all]+size)
	if a.reserved+need <= a.high+a.high/reclaimSlack {
		return nil
	}
	defer a.deal()
	if a.r.virtual {
		return a.reclaimPages(need)
	}
	idle, _ := a.idleSegments()
	slices.SortStableFunc(idle, func(x, y idleSegment) int { return cmp.Compare(y.age, x.age) })
	for _, o := range idle {
		if need <= 0 {
			break
		}
		need -= o.s.blocks.at[o.id].size
		if err := a.releaseBlock(o.s, o.id, true); err != nil {
			return err
		}
	}
	return nil
}

// reclaimPages unmaps pages of free blocks, the longest unused first. Work on the device may still use them, so it
// waits for that work once; a driver's own free of a segment waits too.
func (a *Allocator) reclaimPages(need int64) error {
	var idle []idleSegment
	for _, s := range *a.shards.Load() {
		if s.kept {
			continue
		}
		for i := range s.pools {
			p := &s.pools[i]
			for _, id := range p.atLeast(s.blocks.at, a.r.pageOf(p.large)) {
				if b := &s.blocks.at[id]; b.size >= a.r.pageOf(p.large) {
					idle = append(idle, idleSegment{s, id, p.searches - uint64(b.since)})
				}
			}
		}
	}
	if len(idle) == 0 {
		return nil
	}
	if a.streams != nil {
		if err := a.streams.WaitAll(); err != nil {
			return err
		}
	}
	slices.SortStableFunc(idle, func(x, y idleSegment) int { return cmp.Compare(y.age, x.age) })
	before := a.reserved
	for _, o := range idle {
		if before-a.reserved >= need {
			break
		}
		p := o.s.poolOf(o.s.blocks.at[o.id].large)
		err := a.unmapBlock(o.s, p, o.id)
		o.s.settleGrowth(p)
		if err != nil {
			return err
		}
	}
	return nil
}

// An adaptive packed pool sizes its next segment for adaptBlocks requests of the mean size of the last adaptEvery ones,
// between the bounds. Only the requests and their number decide, so a run is the same every time.
const (
	adaptEvery  = 1024
	adaptBlocks = 4
	adaptMin    = largeBuffer
	adaptMax    = 256 << 20
)

func (p *pool) adapt(size int64) {
	p.asked += size
	if p.askedCount++; p.askedCount < adaptEvery && p.segment != 0 {
		return
	}
	mean := p.asked / p.askedCount
	p.segment = min(max(roundUp(adaptBlocks*mean, roundLarge), adaptMin), adaptMax)
	if p.askedCount >= adaptEvery {
		p.asked, p.askedCount = 0, 0
	}
}

// nextSegment is the size to request from the driver: PyTorch's, or at least the one that was set or learnt.
func (a *Allocator) nextSegment(p *pool, size int64) int64 {
	switch {
	case a.r.virtual:
		return roundUp(size, a.r.pageOf(p.large))
	case !p.large:
		return smallBuffer
	case a.r.adaptive:
		return max(roundUp(size, roundLarge), p.segment)
	case a.r.segment > 0:
		return max(roundUp(size, roundLarge), a.r.segment)
	}
	return a.r.segmentSize(size, p.large)
}

// extendPacked requests the next segment. If the device has less left, it requests less, down to what the request
// needs.
func (a *Allocator) extendPacked(s *shard, p *pool, size int64) (blockID, error) {
	want, need := a.nextSegment(p, size), roundUp(size, roundLarge)
	for {
		id, err := a.newSegment(s, p, want)
		if err == nil || want <= need || !errors.Is(err, ErrNoMemory) {
			return id, err
		}
		want = max(need, roundUp(want/2, roundLarge))
	}
}
