package alloc

// Stat is one gauge, as torch.cuda.memory_stats has it.
type Stat struct {
	Current   int64
	Peak      int64 // since the start, ResetPeak, or the window's opening
	Allocated int64 // the sum of all increases since the start, ResetAccumulated, or the window's opening
	Freed     int64 // of all decreases
}

// PoolStats is a gauge for all blocks, and for those of the large and of the small pool.
type PoolStats struct{ All, Large, Small Stat }

// Stats are exact: they are those of one instant, at which no operation was in progress. Sizes are in bytes.
type Stats struct {
	Allocation         PoolStats // blocks that are handed out
	Segment            PoolStats // what the driver gave in one piece (virtual segments are not counted, as in PyTorch)
	Active             PoolStats // blocks that are handed out or still in use on another stream
	InactiveSplit      PoolStats // free blocks that share their segment: they can't be given back to the driver
	AllocatedBytes     PoolStats // of handed out blocks
	ReservedBytes      PoolStats // got from the driver
	ActiveBytes        PoolStats // of active blocks
	InactiveSplitBytes PoolStats
	RequestedBytes     PoolStats // what the owners of active blocks requested
	UsedBytes          PoolStats // what the owners of handed out blocks requested
	CachedBytes        PoolStats // reserved and not allocated

	OversizeAllocations Stat // active blocks of at least max_split_size
	OversizeSegments    Stat

	Hits, Misses      int64 // of allocations: served from the cache, or not
	Retries           int64 // requests for which all cached memory was released
	OOMs              int64 // requests that failed because memory ran out
	SyncAllStreams    int64 // how often all marks were waited for
	DriverAllocs      int64 // calls that got memory, segments and pages
	DriverFrees       int64 // calls that gave memory back
	MaxSplitSize      int64 // bytes; -1: no limit
	Limit             int64 // of reserved bytes: the device's, or the share set by SetMemoryFraction
	DeviceTotal       int64
	LargestFree       int64 // the largest free block
	DroppedStacks     int64 // stacks that did not fit into the table
	EventsSeen        int64 // events ever recorded; the ring keeps the newest
	FreeBlocks        int64
	PendingFreeBlocks int64 // blocks whose last use the device has not passed
}

// HitRate is the share of allocations served from the cache, 0 where there were none.
func (s *Stats) HitRate() float64 {
	if n := s.Hits + s.Misses; n > 0 {
		return float64(s.Hits) / float64(n)
	}
	return 0
}

// Window measures from its opening on: peaks, sums, hits. Windows may overlap in any way, and cost the allocations
// nothing.
type Window struct {
	a    *Allocator
	base tally // at the opening; of the first window at the last ResetAccumulated
	peak [numGauges]int64
	end  *tally // at Close
}

// tally has the counts that only grow.
type tally struct {
	cur, total                [numGauges]int64
	hits, misses              uint64
	retries, ooms, syncs      uint64
	driverAllocs, driverFrees uint64
}

// Window opens a window at this instant. Close it when it is no longer needed.
func (a *Allocator) Window() *Window {
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	a.fold()
	w := &Window{a: a, base: a.tally()}
	w.peak = w.base.cur
	a.windows = append(a.windows, w)
	return w
}

// Stats are the values since the window's opening; Current is that of now.
func (w *Window) Stats() Stats { return w.a.statsOf(w) }

// Close ends the window; its Stats stay those of this instant.
func (w *Window) Close() {
	w.a.mu.Lock()
	thaw := w.a.freeze(nil)
	defer w.a.mu.Unlock()
	defer thaw()
	w.a.fold()
	for i, o := range w.a.windows {
		if o == w && i > 0 {
			w.a.windows = append(w.a.windows[:i], w.a.windows[i+1:]...)
			end := w.a.tally()
			w.end = &end
			return
		}
	}
}

// Stats are the values since the start or the last reset.
func (a *Allocator) Stats() Stats { return a.statsOf(a.windows[0]) }

// ResetPeak sets the peaks to the present values. Open windows keep theirs.
func (a *Allocator) ResetPeak() { a.reset(true, false) }

// ResetAccumulated sets the sums of increases and decreases and the counts to 0. Open windows keep theirs.
func (a *Allocator) ResetAccumulated() { a.reset(false, true) }

// ResetStats does both.
func (a *Allocator) ResetStats() { a.reset(true, true) }

func (a *Allocator) reset(peak, sums bool) {
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	a.fold()
	w, now := a.windows[0], a.tally()
	if peak {
		w.peak = now.cur
	}
	if sums {
		w.base = now
	}
}

// fold ends the running peaks: each window takes them over, and they restart at the present values. The caller holds
// the device lock and has frozen the shards.
func (a *Allocator) fold() {
	run := a.running()
	a.high = max(a.high, run[int(allocatedBytes)*numScopes])
	for _, w := range a.windows {
		for i, v := range run {
			w.peak[i] = max(w.peak[i], v)
		}
	}
	all := *a.shards.Load()
	if len(all) > 0 && all[0].summed != nil {
		a.totals.restart()
		a.peak = a.totals.peak
		return
	}
	for i, v := range sumOf(all) {
		a.peak[i] = v
		for _, s := range all {
			s.limit[i] = s.cur[i]
		}
	}
}

// running returns the peaks since the last fold.
func (a *Allocator) running() [numGauges]int64 {
	a.deal()
	if all := *a.shards.Load(); len(all) == 1 {
		return all[0].limit
	}
	return a.peak
}

func (a *Allocator) tally() tally {
	t := tally{retries: a.retries, ooms: a.ooms, syncs: a.syncs,
		driverAllocs: a.driven.Alloc + a.driven.Map, driverFrees: a.driven.Free + a.driven.Unmap}
	all := *a.shards.Load()
	for _, s := range all {
		s.mirror()
	}
	t.cur = sumOf(all)
	for _, s := range all {
		t.hits += s.hits
		t.misses += s.misses
		for i, v := range s.sums() {
			t.total[i] += v
		}
	}
	return t
}

func (a *Allocator) statsOf(w *Window) Stats {
	a.mu.Lock()
	thaw := a.freeze(nil)
	run, now := a.running(), a.tally()
	out := Stats{MaxSplitSize: -1, Limit: min(a.limit, a.total), DeviceTotal: a.total}
	for _, s := range *a.shards.Load() {
		out.EventsSeen += int64(s.ring.total())
		// mirrored by tally
		out.PendingFreeBlocks += s.cur[int(activeBlocks)*numScopes] - s.cur[int(allocations)*numScopes]
		for i := range s.pools {
			p := &s.pools[i]
			out.FreeBlocks += int64(p.count)
			if id := p.last(s.blocks.at); id != 0 {
				out.LargestFree = max(out.LargestFree, s.blocks.at[id].size)
			}
		}
	}
	peak, base := w.peak, w.base
	if w.end != nil {
		now, run = *w.end, peak
	}
	thaw()
	a.mu.Unlock()
	out.fill(&now, &base, &peak, &run)
	if a.r.maxSplit != noLimit {
		out.MaxSplitSize = a.r.maxSplit
	}
	a.stacks.mu.Lock()
	out.DroppedStacks = int64(a.stacks.refused)
	a.stacks.mu.Unlock()
	return out
}

func (s *Stats) fill(now, base *tally, peak, run *[numGauges]int64) {
	stat := func(i int) Stat {
		sum := now.total[i] - base.total[i]
		return Stat{now.cur[i], max(peak[i], run[i]), sum, sum - (now.cur[i] - base.cur[i])}
	}
	for m, to := range map[metric]*PoolStats{
		allocations: &s.Allocation, segments: &s.Segment, activeBlocks: &s.Active, splitBlocks: &s.InactiveSplit,
		allocatedBytes: &s.AllocatedBytes, reservedBytes: &s.ReservedBytes, activeBytes: &s.ActiveBytes,
		splitBytes: &s.InactiveSplitBytes, requestedBytes: &s.RequestedBytes, usedBytes: &s.UsedBytes,
		cachedBytes: &s.CachedBytes,
	} {
		i := int(m) * numScopes
		*to = PoolStats{All: stat(i), Small: stat(i + scopeSmall), Large: stat(i + scopeLarge)}
	}
	s.OversizeAllocations = stat(int(oversizeBlocks) * numScopes)
	s.OversizeSegments = stat(int(oversizeSegments) * numScopes)
	s.Hits, s.Misses = int64(now.hits-base.hits), int64(now.misses-base.misses)
	s.Retries, s.OOMs = int64(now.retries-base.retries), int64(now.ooms-base.ooms)
	s.SyncAllStreams = int64(now.syncs - base.syncs)
	s.DriverAllocs, s.DriverFrees = int64(now.driverAllocs-base.driverAllocs), int64(now.driverFrees-base.driverFrees)
}
