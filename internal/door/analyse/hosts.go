package analyse

import (
	"cmp"
	"math"
	"slices"

	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// reading is what was read of the host at a moment, in bytes.
type reading struct {
	us, total, available float64
}

// hosts are the readings of the host, in order of time.
type hosts struct {
	list []reading
	made []float64 // the last step that had ended by then
}

// hostRows reads the host.
func (l *loader) hostRows() (err error) {
	l.hosts.list, err = readings(l, func(s *Sources) *moments[reading] { return &s.hosts }, "host_memory",
		"total, available", func(v []float64) reading { return reading{v[0], v[1], v[2]} },
		func(r reading) float64 { return r.us })
	l.hosts.made = make([]float64, len(l.hosts.list))
	return err
}

// steps tells each reading the step that had ended by then, of the furthest of all clocks that it is told. Between two
// ends of a clock with wide gaps steps are taken to be of equal length.
func (h *hosts) steps(c *clock) {
	for i := range h.list {
		if us := h.list[i].us; len(c.us) > 0 && us >= c.first() {
			h.made[i] = max(h.made[i], math.Floor(c.at(us)))
		}
	}
}

// seek is the index of the first of a list in order of time that is not before a moment. Moments mostly come in order:
// it begins where the last one was.
func seek[T any](list []T, from int, us float64, of func(*T) float64) int {
	const near = 8
	for i := from; i < len(list) && i < from+near; i++ {
		if of(&list[i]) >= us && (i == 0 || of(&list[i-1]) < us) {
			return i
		}
	}
	i, _ := slices.BinarySearchFunc(list, us, func(x T, us float64) int { return cmp.Compare(of(&x), us) })
	return i
}

// cgroup is what was read of one at a moment, in bytes; NaN where it was not.
type cgroup struct {
	us, current, limit, inactive, active, dirty, writeback, slab, shmem, anon float64
}

// least is the one of a moment's cgroups with the least room, of those that count; nil for none.
func least(list []cgroup, counts func(c *cgroup) bool) (found *cgroup) {
	room := func(c *cgroup) float64 {
		if r := c.limit - c.current; !math.IsNaN(r) {
			return r
		}
		return math.Inf(1)
	}
	for i := range list {
		if c := &list[i]; counts(c) && (found == nil || room(c) < room(found)) {
			found = c
		}
	}
	return found
}

// cgroups reads those that the job is in, and calls moment for each moment's.
func (l *loader) cgroups(moment func(us float64, list []cgroup)) error {
	list, err := readings(l, func(s *Sources) *moments[cgroup] { return &s.cgroups }, "cgroup_memory",
		"current, limit_bytes, inactive_file, active_file, file_dirty, file_writeback, slab_reclaimable, shmem, anon",
		func(v []float64) cgroup { return cgroup{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]} },
		func(c cgroup) float64 { return c.us })
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].us == list[from].us {
			to++
		}
		moment(list[from].us, list[from:to])
		from = to
	}
	return err
}

// limits reads what host memory runs into first, and how what is charged to it went: of each moment as HostSQL has it.
func (l *loader) limits() error {
	host := track{readings: make([]forecast.Reading, 0, len(l.hosts.list))}
	next, until := 0, l.asOf()
	add := func(i int, c *cgroup) {
		if r := &l.hosts.list[i]; r.us <= until || len(host.readings) == 0 {
			host.addHost(r, l.hosts.made[i], c, l.samples.at(r.us).file)
		}
	}
	err := l.cgroups(func(us float64, list []cgroup) {
		for ; next < len(l.hosts.list) && l.hosts.list[next].us < us; next++ {
			add(next, nil)
		}
		if next < len(l.hosts.list) && l.hosts.list[next].us == us {
			add(next, least(list, func(*cgroup) bool { return true }))
			next++
		}
		l.unmapped(us, list)
	})
	for ; next < len(l.hosts.list); next++ {
		add(next, nil)
	}
	if end := l.end(); end != 0 {
		l.host = host.room(end)
	}
	return err
}

// addHost adds a reading of the host, with that of the job's cgroup and with what its processes map of files.
func (t *track) addHost(r *reading, step float64, c *cgroup, mapped float64) {
	h := forecast.Host{Total: orUnknown(r.total), Available: orUnknown(r.available), Current: -1, Limit: -1,
		InactiveFile: -1, Active: -1, Dirty: -1, Writeback: -1, SlabReclaimable: -1}
	if c != nil {
		h.Current, h.Limit, h.InactiveFile = orUnknown(c.current), orUnknown(c.limit), orUnknown(c.inactive)
		h.Active, h.Dirty = orUnknown(c.active), orUnknown(c.dirty)
		h.Writeback, h.SlabReclaimable = orUnknown(c.writeback), orUnknown(c.slab)
	}
	room := h.Room()
	size := room.Limit
	if room.Kind == "host" { // in a cgroup it is what the host has left; people know its size
		size = h.Total
	}
	t.add(r.us, step, float64(room.Used), float64(room.Used), plus(mapped, 0), float64(room.Limit))
	t.kind, t.size = room.Kind, size
}

// orUnknown is -1 for what was not read.
func orUnknown(v float64) int64 {
	if math.IsNaN(v) {
		return -1
	}
	return int64(v)
}

const (
	// besideBytes is what a cgroup may hold beside the job's processes for these to be alone in it: a collector and a
	// shell or two.
	besideBytes = 128 << 20
	// besideShare of the job's own memory is what the counts differ by: they are not read at the same moment.
	besideShare = 1.1
)

// unmapped takes the shared memory that is charged to the job's cgroup and that no process maps: files in memory whose
// descriptors alone are kept, blocks in /dev/shm that nobody removed. What several processes map counts once for each
// of them, so that what is left is never too much. A cgroup with processes of others beside the job's says nothing of
// the job: what these put into shared memory looks the same. Their anonymous memory shows them.
func (l *loader) unmapped(us float64, list []cgroup) {
	c := l.clocks[l.trainer]
	if c == nil || len(c.us) < 2 || l.most == 0 || us < c.first() || us > min(c.last(), l.until) {
		return
	}
	job := l.samples.at(us)
	own := least(list, func(c *cgroup) bool {
		return !math.IsNaN(c.shmem) && !(c.anon > besideShare*job.anon+besideBytes)
	})
	if own == nil {
		return
	}
	shmem := &l.process(l.trainer).Unmapped
	if shmem.Steps == nil {
		n := len(l.samples.list)
		*shmem = detect.Series{Steps: make([]float64, 0, n), Bytes: make([]float64, 0, n)}
	}
	shmem.Steps = append(shmem.Steps, c.at(us))
	shmem.Bytes = append(shmem.Bytes, math.Max(0, own.shmem-plus(job.shmem, 0)))
}
