package forecast

// Host is what the kernel reports about the host's memory and the job's cgroup, in bytes; -1 where a figure is missing.
type Host struct {
	Total, Available int64 // of the host

	Current, Limit       int64 // of the cgroup
	InactiveFile, Active int64 // page cache on either list
	Dirty, Writeback     int64
	SlabReclaimable      int64
}

// Room is how much of a memory can't be given back at once, how much is charged including caches, and the limit that
// binds, in bytes.
type Room struct {
	Used, Charged, Limit int64
	Kind                 string // of the limit: cgroup, host
}

// Room returns the job's. In a cgroup with a limit, the memory in use is the cgroup's charge without the clean page
// cache and the slab that the kernel reclaims before it kills anybody. The limit is the cgroup's, or what the host has
// left where that is less.
func (h *Host) Room() Room {
	taken := h.Total - h.Available
	if h.Limit <= 0 || h.Current < 0 {
		return Room{Used: taken, Charged: taken, Limit: h.Total, Kind: "host"}
	}
	clean := max(0, known(h.InactiveFile)+known(h.Active)-known(h.Dirty)-known(h.Writeback))
	r := Room{Used: max(0, h.Current-clean-known(h.SlabReclaimable)), Charged: h.Current, Limit: h.Limit,
		Kind: "cgroup"}
	if left := r.Used + h.Available; h.Total > 0 && left < r.Limit {
		r.Limit, r.Kind = left, "host"
	}
	return r
}

func known(n int64) int64 { return max(0, n) }
