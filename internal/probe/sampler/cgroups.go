package sampler

import (
	"os"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// cgroups finds and reads the cgroups of the job.
type cgroups struct {
	fs     proc.FS
	root   string
	mounts proc.CgroupMounts
	known  time.Time     // when the mounts were read
	seen   []proc.Cgroup // of the last sample that had processes

	charged map[proc.Cgroup]proc.CgroupMemory // at the start of this sample, of the cgroups in seen

	followed time.Time // when a glance searched for new ones
}

const (
	remount    = time.Minute // mounts change when a container is set up, not later
	maxCgroups = 8           // of one job: one for each rank, when a launcher makes them
)

func (c *cgroups) of(pid int, now time.Time) (proc.Cgroup, error) {
	if c.known.IsZero() || now.Sub(c.known) >= remount {
		mounts, err := c.fs.CgroupMounts(c.root)
		if err != nil {
			return proc.Cgroup{}, err
		}
		c.mounts, c.known = mounts, now
	}
	return c.fs.Cgroup(pid, c.mounts)
}

// entered returns the cgroup of a process that is alive in it. An exiting process is shown in the root cgroup
// (kernel/cgroup/cgroup.c, cgroup_exit), when its memory is already gone (kernel/exit.c, do_exit). So a new cgroup is
// accepted only from a process that has memory.
func (c *cgroups) entered(pid int, now time.Time) (proc.Cgroup, error) {
	cg, err := c.of(pid, now)
	if err != nil || slices.Contains(c.seen, cg) {
		return cg, err
	}
	if st, err := c.fs.Status(pid); err != nil || st.RSS == proc.Unknown {
		return cg, os.ErrProcessDone
	}
	return cg, nil
}

// ahead reads the charges of the known cgroups before the processes are read. So a process that has memory in a sample
// already had it when its cgroup was read. In the opposite order, a process that is killed in between would have memory
// that is charged to no cgroup.
func (c *cgroups) ahead() {
	c.charged = make(map[proc.Cgroup]proc.CgroupMemory, len(c.seen))
	for _, cg := range c.seen {
		if m, err := cg.Memory(); err == nil {
			c.charged[cg] = m
		}
	}
}

// read adds a row for each cgroup in which a process of the job is; without a job, for our own cgroup. Processes may be
// moved, so the roots and the trainers are checked each time; the others follow them. When all have ended, their
// cgroups are still read: they know whether a process was killed.
func (c *cgroups) read(s *Sampler, now time.Time) {
	var found []proc.Cgroup
	for _, pid := range s.leaders() {
		cg, err := c.entered(pid, now)
		if err == nil && !slices.Contains(found, cg) && len(found) < maxCgroups {
			found = append(found, cg)
		}
	}
	if len(found) > 0 {
		c.seen = found
	}
	for _, cg := range c.seen {
		m, known := c.charged[cg]
		if !known {
			var err error
			if m, err = cg.Memory(); err != nil {
				continue
			}
		}
		s.out.Cgroups = append(s.out.Cgroups, s.cgroupRow(cg, &m, now))
	}
}

// A job is put into its cgroup as it starts, and may meet its limit before the next sample. So at first every glance
// searches for a new cgroup, later one glance each second: the cgroup's count of kills must be known before the first
// kill.
const (
	youngGlances = 100
	followEvery  = time.Second
)

func (c *cgroups) follow(s *Sampler, count int) {
	now := s.o.Now()
	if count >= youngGlances && now.Sub(c.followed) < followEvery || s.o.Roots == nil {
		return
	}
	c.followed = now
	for _, pid := range s.leaders() {
		cg, err := c.entered(pid, now)
		if err != nil || slices.Contains(c.seen, cg) || len(c.seen) >= maxCgroups {
			continue
		}
		c.seen = append(c.seen, cg)
		s.kills.rose(cg.Path, cg.OOMKills())
	}
}

// leaders are the processes whose cgroups count.
func (s *Sampler) leaders() []int {
	if s.o.Roots == nil {
		return []int{s.fs.Self()}
	}
	var list []int
	for _, pid := range s.members.pids() {
		p := s.members.byPID[pid]
		if p.about.Trainer || s.members.byPID[p.usage.PPID] == nil {
			list = append(list, pid)
		}
	}
	return list
}

func (s *Sampler) cgroupRow(cg proc.Cgroup, m *proc.CgroupMemory, now time.Time) model.CgroupMemory {
	row := model.CgroupMemory{Time: now.UnixMicro(), Path: cg.Path, Version: int32(cg.Version), Current: m.Current,
		Limit: m.Limit, LimitPath: m.LimitPath, High: m.High, Max: m.Max, Peak: m.Peak, SwapUsed: m.Swap,
		SwapMax: m.SwapMax, Anon: m.Anon, File: m.File, Shmem: m.Shmem, Kernel: m.Kernel, KernelStack: m.KernelStack,
		PageTables: m.PageTables, Slab: m.Slab, SlabReclaimable: m.SlabReclaimable, Sock: m.Sock,
		InactiveAnon: m.InactiveAnon, ActiveAnon: m.ActiveAnon, InactiveFile: m.InactiveFile, ActiveFile: m.ActiveFile,
		Unevictable: m.Unevictable, FileMapped: m.FileMapped, FileDirty: m.FileDirty, FileWriteback: m.FileWriteback,
		Faults: m.Faults, MajorFaults: m.MajorFaults, RefaultFile: m.RefaultFile, RefaultAnon: m.RefaultAnon,
		EventsLow: m.EventsLow, EventsHigh: m.EventsHigh, EventsMax: m.EventsMax, EventsOOM: m.EventsOOM,
		EventsOOMKill: m.EventsOOMKill, Pressure: pressure(m.Pressure)}
	if s.total != model.Null && row.Limit >= s.total { // the machine's memory ends before the limit does
		row.Limit, row.LimitPath = model.Null, ""
	}
	return row
}
