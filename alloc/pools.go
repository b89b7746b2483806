package alloc

import (
	"errors"
	"fmt"
)

// PoolID names a private pool: memory that only requests with that ID get. So it stays unchanged for the replay of a
// recording that uses it (a CUDA graph writes to it whether the program has freed it or not). 0 is the shared pool.
type PoolID uint32

// deferredMarks are the streams for which a freed block waits, while the device must not be queried.
type deferredMarks struct {
	s    *shard
	id   blockID
	uses []Stream
}

// errCapturing says that memory can't be given back to the driver now.
var errCapturing = errors.New("a CUDA graph is being captured, or a private pool allocated to")

// BeginPool says that allocations from a pool follow, perhaps by work that is being captured. Until EndPool nothing is
// given back to the driver and no stream is queried for its progress, since neither may happen during a capture. It
// also holds the pool, as PyTorch does (CUDACachingAllocator.cpp, beginAllocateToPool), until ReleasePool.
func (a *Allocator) BeginPool(id PoolID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pools == nil {
		a.pools = map[PoolID]int{}
	}
	a.pools[id]++
	a.setKept(id, true)
	if a.held++; a.held == 1 {
		a.tellCapturing(true)
	}
}

// EndPool ends what BeginPool began. Blocks that were freed meanwhile start to wait for their streams.
func (a *Allocator) EndPool(PoolID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == 0 {
		return nil
	}
	if a.held--; a.held > 0 {
		return nil
	}
	a.tellCapturing(false)
	thaw := a.freeze(nil)
	defer thaw()
	var errs []error
	for _, d := range a.deferred {
		d.s.blocks.at[d.id].refs-- // the one that mark has left
		errs = append(errs, a.markOn(d.s, d.id, d.uses))
	}
	a.deferred = nil
	a.deal()
	return errors.Join(errs...)
}

// ReleasePool releases a hold on a pool. After the last one, the pool's idle memory may be given back to the driver;
// its live blocks stay.
func (a *Allocator) ReleasePool(id PoolID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pools[id] > 1 {
		a.pools[id]--
		return
	}
	delete(a.pools, id)
	a.setKept(id, false)
}

// setKept marks a pool's shards. The caller holds the device lock.
func (a *Allocator) setKept(id PoolID, kept bool) {
	thaw := a.freeze(nil)
	defer thaw()
	for _, s := range *a.shards.Load() {
		if s.pool == id && id != 0 {
			s.kept = kept
		}
	}
}

func (a *Allocator) tellCapturing(on bool) {
	if c, ok := a.drv.(Capturer); ok {
		c.Capturing(on)
	}
}

// BaseOf returns the segment that contains the live block at p; for virtual segments the contiguous range around it
// that has memory.
func (a *Allocator) BaseOf(p Ptr) (base Ptr, size int64, err error) {
	s, slot := a.find(p)
	if s == nil {
		return 0, 0, a.misuse("look up", p, ErrDoubleFree)
	}
	defer s.mu.Unlock()
	at := s.blocks.at
	first := s.index.id(slot)
	for at[first].prev != 0 && at[at[first].prev].state != unmapped {
		first = at[first].prev
	}
	for id := first; id != 0 && at[id].state != unmapped; id = at[id].next {
		size += at[id].size
	}
	return Ptr(at[first].addr), size, nil
}

// checkRelease reports whether memory may be given back to the driver. The caller holds the device lock.
func (a *Allocator) checkRelease() error {
	if a.held > 0 {
		return fmt.Errorf("give memory back: %w", errCapturing)
	}
	return nil
}
