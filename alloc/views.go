package alloc

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/units"
)

// GenesisStats are the keys of Genesis's device.memory_stats(), in bytes. Its active_bytes are what the owners of live
// blocks requested, so its "fragmentation", 1 - active_bytes/allocated_bytes, is the cost of rounding. PyTorch gives
// that name another meaning, and another key: active_bytes.all.current.
type GenesisStats struct {
	AllocatedBytes     int64   `json:"allocated_bytes"`
	CachedBytes        int64   `json:"cached_bytes"` // reserved and not allocated
	ReservedBytes      int64   `json:"reserved_bytes"`
	InactiveSplitBytes int64   `json:"inactive_split_bytes"`
	ActiveBytes        int64   `json:"active_bytes"`
	CacheHitRate       float64 `json:"cache_hit_rate"` // a fraction, from 0 to 1
	NumAllocations     int64   `json:"num_allocations"`
	NumCacheHits       int64   `json:"num_cache_hits"`
	NumCacheMisses     int64   `json:"num_cache_misses"`
	PeakAllocated      int64   `json:"peak_allocated"`
	PeakCached         int64   `json:"peak_cached"`
}

// Genesis returns Genesis's view of the statistics.
func (s *Stats) Genesis() GenesisStats {
	return GenesisStats{
		AllocatedBytes: s.AllocatedBytes.All.Current, CachedBytes: s.CachedBytes.All.Current,
		ReservedBytes: s.ReservedBytes.All.Current, InactiveSplitBytes: s.InactiveSplitBytes.All.Current,
		ActiveBytes: s.UsedBytes.All.Current, CacheHitRate: s.HitRate(),
		NumAllocations: s.Hits + s.Misses, NumCacheHits: s.Hits, NumCacheMisses: s.Misses,
		PeakAllocated: s.AllocatedBytes.All.Peak, PeakCached: s.CachedBytes.All.Peak,
	}
}

// Torch returns the keys of torch.cuda.memory_stats(), with PyTorch's meanings.
func (s *Stats) Torch() map[string]int64 {
	out := map[string]int64{
		"num_alloc_retries": s.Retries, "num_ooms": s.OOMs, "num_sync_all_streams": s.SyncAllStreams,
		"num_device_alloc": s.DriverAllocs, "num_device_free": s.DriverFrees, "max_split_size": s.MaxSplitSize,
	}
	put := func(name string, v Stat) {
		out[name+".current"], out[name+".peak"] = v.Current, v.Peak
		out[name+".allocated"], out[name+".freed"] = v.Allocated, v.Freed
	}
	for name, v := range map[string]PoolStats{
		"allocation": s.Allocation, "segment": s.Segment, "active": s.Active, "inactive_split": s.InactiveSplit,
		"allocated_bytes": s.AllocatedBytes, "reserved_bytes": s.ReservedBytes, "active_bytes": s.ActiveBytes,
		"inactive_split_bytes": s.InactiveSplitBytes, "requested_bytes": s.RequestedBytes,
	} {
		put(name+".all", v.All)
		put(name+".small_pool", v.Small)
		put(name+".large_pool", v.Large)
	}
	put("oversize_allocations", s.OversizeAllocations)
	put("oversize_segments", s.OversizeSegments)
	return out
}

// MemorySummary is the statistics for people: what is used, what is held without use and why, how well the cache works.
func (a *Allocator) MemorySummary() string {
	s := a.Stats()
	return s.Summary(fmt.Sprintf("device %d, policy %s", a.opt.Device, a.r.policy))
}

// Summary formats the statistics as a table under a title.
func (s *Stats) Summary(title string) string {
	var b strings.Builder
	size := func(n int64) string { return units.Bytes(max(n, 0)).String() }
	fmt.Fprintf(&b, "memory of %s: %s reserved of %s\n", title, size(s.ReservedBytes.All.Current), size(s.Limit))
	row := func(name string, cells ...string) {
		fmt.Fprintf(&b, "  %-23s", name)
		for _, c := range cells {
			fmt.Fprintf(&b, " %12s", c)
		}
		b.WriteByte('\n')
	}
	row("", "now", "peak", "small now", "large now")
	for _, r := range []struct {
		name string
		v    PoolStats
	}{
		{"asked for", s.UsedBytes}, {"allocated", s.AllocatedBytes}, {"active", s.ActiveBytes},
		{"reserved", s.ReservedBytes}, {"cached", s.CachedBytes}, {"  of it in split blocks", s.InactiveSplitBytes},
	} {
		row(r.name, size(r.v.All.Current), size(r.v.All.Peak), size(r.v.Small.Current), size(r.v.Large.Current))
	}
	count := func(n int64) string { return fmt.Sprint(n) }
	for _, r := range []struct {
		name string
		v    PoolStats
	}{{"blocks", s.Allocation}, {"segments", s.Segment}} {
		row(r.name, count(r.v.All.Current), count(r.v.All.Peak), count(r.v.Small.Current), count(r.v.Large.Current))
	}
	fmt.Fprintf(&b,
		"  allocations %d, of which %.1f%% from the cache (%d hits, %d misses); driver: %d allocations, %d frees\n",
		s.Hits+s.Misses, 100*s.HitRate(), s.Hits, s.Misses, s.DriverAllocs, s.DriverFrees)
	if r := s.ReservedBytes.All; r.Peak > 0 {
		fmt.Fprintf(&b, "  the peak of reserved is %.1f%% above that of asked for; largest free block %s\n",
			100*(float64(r.Peak)/float64(max(s.UsedBytes.All.Peak, 1))-1), size(s.LargestFree))
	}
	fmt.Fprintf(&b, "  out of memory %d times, cache released for a request %d times\n", s.OOMs, s.Retries)
	return b.String()
}
