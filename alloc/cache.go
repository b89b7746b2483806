package alloc

import (
	"errors"
	"fmt"
)

// EmptyCache gives every segment and page that nobody uses back to the driver, after waiting for blocks that other
// streams still use. It returns how many bytes were given back.
func (a *Allocator) EmptyCache() (int64, error) {
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	var n int64
	err := a.checkRelease()
	if err == nil {
		n, err = a.releaseAll()
		a.deal()
	}
	if err != nil {
		return n, fmt.Errorf("empty cache: %w", err)
	}
	return n, nil
}

// SetMemoryFraction caps reserved bytes at a share of the device's memory, above 0 up to 1. If more than a lower cap is
// reserved, it stays reserved until it is freed.
func (a *Allocator) SetMemoryFraction(f float64) error {
	if !(f > 0 && f <= 1) {
		return fmt.Errorf("memory fraction %g: above 0, at most 1", f)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit = int64(f * float64(a.total))
	return nil
}

// Close gives all memory back to the driver, blocks in use included, and refuses further allocations.
func (a *Allocator) Close() error {
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	if a.closed {
		return nil
	}
	a.closed, a.held, a.deferred = true, 0, nil
	for _, s := range *a.shards.Load() {
		s.kept = false
	}
	_, err := a.releaseAll()
	errs := []error{err}
	for _, s := range *a.shards.Load() {
		for i := range s.segs.at {
			if seg := &s.segs.at[i]; seg.used {
				errs = append(errs, a.closeSegment(s, seg))
			}
		}
		s.blocks, s.segs, s.index, s.pools = blockSlab{}, segSlab{}, index{}, [2]pool{{}, {large: true}}
		s.uses, s.waiting = nil, nil
	}
	empty := []*shard{}
	a.shards.Store(&empty)
	a.named.Clear()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close allocator: %w", err)
	}
	return nil
}

func (a *Allocator) closeSegment(s *shard, seg *segment) error {
	if !seg.virtual {
		return a.drv.Free(Ptr(seg.addr), seg.size)
	}
	var errs []error
	for id := seg.first; id != 0; {
		b := s.blocks.at[id]
		from := b.addr
		for id != 0 && s.blocks.at[id].state != unmapped {
			id = s.blocks.at[id].next
		}
		to := seg.addr + uint64(seg.size)
		if id != 0 {
			to = s.blocks.at[id].addr
			id = s.blocks.at[id].next
		}
		if to > from {
			errs = append(errs, a.virtual.Unmap(Ptr(from), int64(to-from)))
		}
	}
	return errors.Join(append(errs, a.virtual.Release(Ptr(seg.addr), seg.size))...)
}

// WarmUp caches memory for one block of each size on a stream, so that the first allocations find it. It counts as
// neither hits nor misses nor allocations.
func (a *Allocator) WarmUp(sizes []int64, stream Stream) error {
	s, err := a.shardFor(owner{stream: stream})
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	s.mu.Lock()
	a.enter(s)
	err = a.warmShard(s, sizes)
	a.mu.Unlock()
	a.finish(s)
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return nil
}

func (a *Allocator) warmUp(sizes []int64) error {
	if len(sizes) == 0 {
		return nil
	}
	return a.WarmUp(sizes, 0)
}

// warmShard hands out a block for each size, so that each has its own, and takes all back. Then it resets the gauges,
// except for what came from the driver. The caller holds s and the device lock.
func (a *Allocator) warmShard(s *shard, sizes []int64) (err error) {
	before := s.counters
	var taken []blockID
	for _, n := range sizes {
		if n <= 0 || n > maxRequest {
			err = fmt.Errorf("%d bytes: %w", n, ErrBadSize)
			break
		}
		size := a.r.round(n)
		p := s.poolOf(a.r.large(n, size))
		id := s.take(p, size)
		if id == 0 {
			if id, err = a.extend(s, p, size); err != nil {
				s.settleGrowth(p)
				err = fmt.Errorf("%d bytes: %w", n, err)
				break
			}
		}
		taken = append(taken, s.handOut(p, id, size, n))
	}
	for _, id := range taken {
		s.disown(id, s.index.slot(s.blocks.at, s.blocks.at[id].addr))
		s.recycle(id)
	}
	for m := range numMetrics {
		if i := int(m) * numScopes; m != segments && m != reservedBytes {
			copy(s.total[i:i+numScopes], before.total[i:i+numScopes])
		}
	}
	s.limit = before.limit
	s.over = -1 // the limits are as before, the gauges are not
	return err
}
