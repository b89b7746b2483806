package forecast

// Host is what the kernel says of the host's memory and of the job's cgroup, in bytes; -1 where there is no figure.
type Host struct {
	Total, Available int64 // of the host

	Current, Limit       int64 // of the cgroup
	InactiveFile, Active int64 // page cache on either list
	Dirty, Writeback     int64
	SlabReclaimable      int64
}

// Room is what of a memory can't be given back at once, what is charged with caches, and the limit that binds, in
// bytes.
type Room struct {
	Used, Charged, Limit int64
	Kind                 string // of the limit: cgroup, host
}

// Room is that of the job. In a cgroup with a limit the memory is the cgroup's, without the clean page cache and the
// slab that the kernel takes back before it kills anybody; the limit is the cgroup's, or what the host has left where
// that is less.
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
