package sampler

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// members knows which processes belong to the job. New ones are found by their PIDs in /proc. Of a process that was
// seen before only the PID is read, so a host with thousands of processes costs one directory listing. A child whose
// parent has ended stays a member, since it was seen before.
type members struct {
	fs      proc.FS
	byPID   map[int]*member
	foreign map[int]int // processes that are not ours → sample in which they were read
	count   int         // samples taken
}

// member is a process of the job.
type member struct {
	usage   proc.Usage
	command string
	role    string
	about   About
	cgroup  string
	nsPID   int
	rss     int64 // at the last sample; Unknown before
	peak    int64 // highest VmHWM
	first   time.Time
	told    time.Time // when its row of process.tree was last written
	before  cpuTimes
	due     time.Time // when smaps_rollup may be read again
	pages   float64   // ns a page, as the last reading took
}

type cpuTimes struct {
	at           time.Time
	user, system uint64 // ticks
}

const (
	// samples after which a foreign process is read again: its PID may have been reused by one of ours
	relook     = 30
	maxMembers = 4096 // processes of a job that are sampled; 64 ranks with 16 workers each are 1,088
)

func newMembers(fs proc.FS) *members {
	return &members{fs: fs, byPID: map[int]*member{}, foreign: map[int]int{}}
}

func (m *members) has(pid int) bool { return m.byPID[pid] != nil }

// pids lists them in order.
func (m *members) pids() []int {
	list := make([]int, 0, len(m.byPID))
	for pid := range m.byPID {
		list = append(list, pid)
	}
	slices.Sort(list)
	return list
}

// update finds processes that started and ended. It returns those that ended.
func (m *members) update(root string, roots []int, now time.Time) (gone []*member) {
	m.count++
	fresh := map[int]proc.Usage{}
	alive := map[int]bool{}
	for _, pid := range numbers(root) {
		alive[pid] = true
		if m.byPID[pid] != nil {
			continue
		}
		if at, seen := m.foreign[pid]; seen && (m.count+pid)%relook != 0 && at != 0 && !slices.Contains(roots, pid) {
			continue
		}
		if u, err := m.fs.Usage(pid); err == nil {
			fresh[pid] = u
		}
	}
	for pid := range m.foreign {
		if !alive[pid] {
			delete(m.foreign, pid)
		}
	}
	gone = m.refresh(alive)
	m.adopt(fresh, roots, now)
	return gone
}

// refresh reads the members' usage and removes those that ended.
func (m *members) refresh(alive map[int]bool) (gone []*member) {
	for pid, p := range m.byPID {
		u, err := m.fs.Usage(pid)
		if err == nil && u.Start == p.usage.Start && !u.Dead() {
			p.usage = u
			continue
		}
		if err != nil && alive[pid] && !os.IsNotExist(err) && !gonePID(err) {
			continue // not readable at the moment
		}
		gone = append(gone, p)
		delete(m.byPID, pid)
	}
	slices.SortFunc(gone, func(a, b *member) int { return a.usage.PID - b.usage.PID })
	return gone
}

// adopt adds the roots and every descendant of a member, however deep.
func (m *members) adopt(fresh map[int]proc.Usage, roots []int, now time.Time) {
	for again := true; again; {
		again = false
		for pid, u := range fresh {
			if !slices.Contains(roots, pid) && m.byPID[u.PPID] == nil || u.Dead() || len(m.byPID) >= maxMembers {
				continue
			}
			m.byPID[pid] = m.describe(u, now)
			delete(fresh, pid)
			delete(m.foreign, pid)
			again = true
		}
	}
	for pid := range fresh {
		m.foreign[pid] = m.count
	}
}

func (m *members) describe(u proc.Usage, now time.Time) *member {
	p := &member{usage: u, first: now, about: Nothing, rss: proc.Unknown, peak: proc.Unknown}
	if args, err := m.fs.Cmdline(u.PID); err == nil {
		p.command = commandText(args)
	}
	return p
}

const maxCommand = 1024 // bytes of a command line that are kept

// commandText is a command line as it may be stored. It is redacted before it is cut: the removed part may be what
// identifies a secret.
func commandText(args []string) string { return clip(strings.Join(secret.Args(args), " "), maxCommand) }

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// numbers lists the processes of a proc file system.
func numbers(root string) (list []int) {
	dir, err := os.Open(root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read until an error counts
	for _, n := range names {
		if n[0] < '0' || n[0] > '9' {
			continue
		}
		if pid, err := strconv.Atoi(n); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// Roles of processes.
const (
	RoleTrainer  = "trainer"
	RoleWorker   = "worker"
	RoleLauncher = "launcher"
	RoleHelper   = "helper"
	RoleMain     = "main" // the command itself, when no training was seen in it
	RoleOther    = "other"
)

// helpers are command lines of Python's and torch's own background processes.
var helpers = []string{"multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker",
	"multiprocessing.forkserver",
	"_inductor/compile_worker", "triton"}

// assignRoles decides the role of each member in the job. A worker is a Python process that a trainer started and that
// makes no steps itself. Workers of data loaders have the trainer's own command line (fork) or multiprocessing's
// (spawn). That a process has loaded PyTorch says little: every worker has.
func (m *members) assignRoles() {
	for _, p := range m.byPID {
		p.role = m.roleOf(p)
	}
	for _, p := range m.byPID { // who starts trainers
		if p.role != RoleTrainer {
			continue
		}
		for parent := m.byPID[p.usage.PPID]; parent != nil && parent.starts(p); parent = m.byPID[parent.usage.PPID] {
			parent.role = RoleLauncher
		}
	}
}

// starts reports whether the parent of a trainer is its launcher: torchrun, a shell, or a Python that only spawns
// ranks.
func (p *member) starts(child *member) bool {
	return p.role == RoleOther || p.role == RoleMain || p.role == RoleTrainer && !p.about.Steps && child.about.Steps
}

func (m *members) roleOf(p *member) string {
	for _, h := range helpers {
		if strings.Contains(p.command, h) {
			return RoleHelper
		}
	}
	parent := m.byPID[p.usage.PPID]
	forked := parent != nil && (p.command == parent.command || strings.Contains(p.command, "multiprocessing.spawn"))
	switch {
	case p.about.Steps:
		return RoleTrainer
	case strings.HasPrefix(p.usage.Comm, "pt_data_worker"): // torch.multiprocessing._set_thread_name, torch 2.6
		return RoleWorker
	case forked && m.worksFor(parent, func(a About) bool { return a.Steps }):
		return RoleWorker
	case p.about.Trainer:
		return RoleTrainer
	case parent == nil:
		return RoleMain
	case forked && m.worksFor(parent, func(a About) bool { return a.Trainer }):
		return RoleWorker
	}
	return RoleOther
}

// worksFor reports whether the parent trains, or is a worker of one that does (a fork server, nested loaders).
func (m *members) worksFor(parent *member, trains func(About) bool) bool {
	for depth := 0; parent != nil && depth < 4; depth++ {
		if trains(parent.about) {
			return true
		}
		parent = m.byPID[parent.usage.PPID]
	}
	return false
}
