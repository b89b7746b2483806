package monitor

import "time"

// HostState is what the kernel says of the host's memory and of the job's cgroup, in bytes; -1 where there is no figure.
type HostState struct {
	Time             time.Time
	Step             float64
	Total, Available int64 // of the host

	Current, Limit       int64 // of the cgroup
	InactiveFile, Active int64 // page cache on either list
	Dirty, Writeback     int64
	SlabReclaimable      int64
	Mapped               int64 // files that the job's processes have mapped and touched
}

// Reading makes one reading of it. In a cgroup with a limit the memory is the cgroup's, without the clean page cache and
// the slab that the kernel takes back before it kills anybody; the limit is the cgroup's, or what the host has left where
// that is less.
func (s *HostState) Reading() Reading {
	r := Reading{Device: Host, Time: s.Time, Step: s.Step, Kind: "host", Total: s.Total, Reserved: s.Total - s.Available, Used: s.Total - s.Available,
		Mapped: known(s.Mapped)}
	if s.Limit > 0 && s.Current >= 0 {
		clean := max(0, known(s.InactiveFile)+known(s.Active)-known(s.Dirty)-known(s.Writeback))
		r.Used = max(0, s.Current-clean-known(s.SlabReclaimable))
		r.Reserved, r.Total, r.Kind = s.Current, s.Limit, "cgroup"
		if room := r.Used + s.Available; s.Total > 0 && room < r.Total {
			r.Total, r.Kind = room, "host"
		}
	}
	r.Peak = r.Used
	return r
}

func known(n int64) int64 { return max(0, n) }
