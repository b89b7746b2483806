// Package picture lists every byte of a job: the memory of its processes by class, compared with the kernel's counts
// for the cgroup or the host, and what is on the GPUs. It reads /proc under a root directory on request, and takes the
// agents' reports about their heaps. It estimates nothing without a basis: what can't be separated is nil, and the rest
// is shown as unexplained.
package picture

import (
	"cmp"
	"slices"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// Classes are bytes; nil where they can't be separated. For each process they add up to its PSS, page tables and swap.
type Classes struct {
	HeapInUse    *int64 `json:"heap_in_use"`   // handed out by malloc
	HeapFree     *int64 `json:"heap_free"`     // held by malloc, not handed out
	PythonArenas *int64 `json:"python_arenas"` // of Python's allocator for small objects
	Anonymous    *int64 `json:"anonymous"`     // other anonymous maps
	Stacks       *int64 `json:"stacks"`        // of threads
	File         *int64 `json:"file"`          // mapped files; for a cgroup: its page cache
	Shared       *int64 `json:"shared"`        // tmpfs, memfd, SysV, shared anonymous maps
	Pinned       *int64 `json:"pinned"`        // locked, or pinned for devices
	PageTables   *int64 `json:"page_tables"`
	Kernel       *int64 `json:"kernel,omitempty"` // a cgroup's kernel memory without page tables: stacks, slab, sockets
	Swap         *int64 `json:"swap"`
}

// Process of the picture.
type Process struct {
	PID     int     `json:"pid"`
	Role    string  `json:"role"`
	Command string  `json:"command"`
	Rank    *int    `json:"rank,omitempty"`
	RSS     int64   `json:"rss"`
	PSS     *int64  `json:"pss"`
	Classes Classes `json:"classes"`
	Note    string  `json:"note,omitempty"` // what could not be read, and why

	anon int64 // bytes of PSS that are anonymous
}

// Host is the host memory of the job.
type Host struct {
	Charged     *int64   `json:"charged_bytes"`
	Named       *int64   `json:"named_bytes"`
	Unexplained *int64   `json:"unexplained_bytes"` // negative: more was named than is charged
	Limit       *int64   `json:"limit_bytes"`
	LimitKind   string   `json:"limit_kind"` // cgroup, host
	NamedShare  *float64 `json:"named_share"`
	Cgroup      string   `json:"cgroup,omitempty"`
	Kernel      *Kernel  `json:"kernel_counts,omitempty"` // the kernel's counts, to compare the processes' sums with
	Classes     Classes  `json:"classes"`
}

// Kernel compares the cgroup's count with the sum over its processes.
type Kernel struct {
	Anonymous int64 `json:"anonymous"`       // memory.stat
	Processes int64 `json:"processes_total"` // the same, added up over the processes
}

// Picture is the whole result.
type Picture struct {
	Host      Host              `json:"host"`
	Processes []Process         `json:"processes"`
	Devices   map[string]Device `json:"devices"`
}

// Device is a GPU.
type Device struct {
	Name    string `json:"name"`
	Total   *int64 `json:"total_bytes"`
	Used    *int64 `json:"used_bytes"`
	Live    *int64 `json:"allocator_live_bytes"`
	Cached  *int64 `json:"allocator_cached_bytes"`
	Context *int64 `json:"context_bytes"`
	Outside *int64 `json:"outside_bytes"`
	Others  *int64 `json:"other_processes_bytes"`
	Driver  *int64 `json:"driver_bytes"` // used, and by no process: firmware, ECC, page tables
}

// Heap is what a process's agent reports. Bytes; nil where it does not know.
type Heap struct {
	InUse  int64 // mallinfo2: uordblks + hblkhd
	Held   int64 // arena + hblkhd
	Mapped int64 // hblkhd: blocks with a map of their own; proc.Unknown: Held less the address space of the heap's maps
	Arenas *int64
}

// Member is a process that should be in the picture.
type Member struct {
	PID     int
	Role    string
	Command string
	Rank    int // -1 unknown
	Heap    *Heap
}

// Roles of processes in the job's cgroup that do not belong to the job.
const (
	Outside = "outside"
	Ours    = "memgauge" // collector and supervisor
)

const settle = 3 // readings, at most, until the cgroup's charge stays the same during one

// Take reads the members' memory now. cgroup is the one that they are charged to, or nil; hostTotal is the machine's
// memory.
func Take(fs proc.FS, members []Member, cgroup *proc.Cgroup, hostTotal int64) Picture {
	best, stillest := Picture{}, int64(-1)
	for range settle {
		p, moved := take(fs, members, cgroup, hostTotal)
		if stillest < 0 || moved < stillest {
			best, stillest = p, moved
		}
		if p.Host.Charged == nil || moved*200 <= *p.Host.Charged { // half a percent
			break
		}
	}
	return best
}

// take also returns by how much the cgroup's charge changed meanwhile.
func take(fs proc.FS, members []Member, cgroup *proc.Cgroup, hostTotal int64) (p Picture, moved int64) {
	outside := false
	if cgroup != nil {
		members, outside = withOutsiders(fs, members, *cgroup)
	}
	before := memoryOf(cgroup)
	for _, m := range members {
		if one, ok := processOf(fs, m); ok {
			p.Processes = append(p.Processes, one)
		}
	}
	order.Stable(p.Processes, func(a, b Process) int { return cmp.Compare(weight(b), weight(a)) })
	counts := memoryOf(cgroup)
	if counts != nil && before != nil {
		moved = max(counts.Current-before.Current, before.Current-counts.Current)
		between(before, counts)
	}
	if counts != nil && hostTotal > 0 && counts.Limit >= hostTotal {
		counts.Limit = proc.Unknown
	}
	if counts == nil || counts.Limit == proc.Unknown && outside {
		p.Processes = slices.DeleteFunc(p.Processes, func(x Process) bool {
			return x.Role == Outside ||
				x.Role == Ours
		})
		p.Host = ofProcesses(p.Processes, hostTotal)
		return p, 0
	}
	p.Host = ofCgroup(p.Processes, *cgroup, counts, hostTotal)
	return p, moved
}

func memoryOf(cgroup *proc.Cgroup) *proc.CgroupMemory {
	if cgroup == nil {
		return nil
	}
	m, err := cgroup.Memory()
	if err != nil {
		return nil
	}
	return &m
}

// between averages the cgroup counters read before and after the processes, since a growing job changes meanwhile.
func between(before, after *proc.CgroupMemory) {
	for _, n := range []struct {
		then int64
		now  *int64
	}{{before.Current, &after.Current}, {before.Anon, &after.Anon}, {before.File, &after.File},
		{before.Shmem, &after.Shmem},
		{before.Kernel, &after.Kernel}, {before.PageTables, &after.PageTables}, {before.Sock, &after.Sock}} {
		if n.then != proc.Unknown && *n.now != proc.Unknown {
			*n.now = (n.then + *n.now) / 2
		}
	}
}

// withOutsiders adds the cgroup's other processes: their memory is charged to it too.
func withOutsiders(fs proc.FS, members []Member, cgroup proc.Cgroup) (all []Member, outside bool) {
	pids, err := cgroup.Processes()
	if err != nil {
		return members, false
	}
	all = slices.Clone(members)
	for _, pid := range pids {
		if slices.ContainsFunc(members, func(m Member) bool { return m.PID == pid }) {
			continue
		}
		m := Member{PID: pid, Role: Outside, Rank: -1}
		if s, err := fs.Stat(pid); err == nil {
			if m.Command = s.Comm; s.Comm == "memgauge" {
				m.Role = Ours
			}
		}
		all, outside = append(all, m), outside || m.Role == Outside
	}
	return all, outside
}

func weight(p Process) int64 {
	if p.PSS != nil {
		return *p.PSS
	}
	return p.RSS
}

func known(n int64) *int64 {
	if n == proc.Unknown {
		return nil
	}
	return &n
}

// add returns the sum of the known values.
func add(into **int64, n *int64) {
	if n == nil {
		return
	}
	sum := *n
	if *into != nil {
		sum += **into
	}
	*into = &sum
}

// ofProcesses is the host side for a job without a cgroup of its own: its charge is the kernel's count for the
// processes.
func ofProcesses(list []Process, hostTotal int64) Host {
	h := Host{LimitKind: "host", Limit: known(hostTotal)}
	var charged, named int64
	for i := range list {
		p := &list[i]
		h.Classes.addAll(p.Classes)
		charged += weight(*p)
		if p.Classes.PageTables != nil {
			charged += *p.Classes.PageTables
		}
		named += p.Classes.named()
	}
	h.balance(charged, named)
	return h
}

func (h *Host) balance(charged, named int64) {
	rest := charged - named
	h.Charged, h.Named, h.Unexplained = &charged, &named, &rest
	if charged > 0 {
		share := 1 - float64(max(rest, -rest))/float64(charged)
		h.NamedShare = &share
	}
}

// named returns how much of the charged memory is named: all but swap, which is not resident.
func (c Classes) named() (sum int64) {
	for _, n := range []*int64{c.HeapInUse, c.HeapFree, c.PythonArenas, c.Anonymous, c.Stacks, c.File, c.Shared,
		c.Pinned, c.PageTables, c.Kernel} {
		if n != nil {
			sum += *n
		}
	}
	return sum
}

func (c *Classes) addAll(o Classes) {
	add(&c.HeapInUse, o.HeapInUse)
	add(&c.HeapFree, o.HeapFree)
	add(&c.PythonArenas, o.PythonArenas)
	add(&c.Anonymous, o.Anonymous)
	add(&c.Stacks, o.Stacks)
	add(&c.File, o.File)
	add(&c.Shared, o.Shared)
	add(&c.Pinned, o.Pinned)
	add(&c.PageTables, o.PageTables)
	add(&c.Kernel, o.Kernel)
	add(&c.Swap, o.Swap)
}

// ofCgroup compares the processes with the cgroup. Anonymous memory comes from the processes. Files, shared memory and
// the kernel's own memory come from the cgroup, because a page of these is charged to whoever touched it first, mapped
// or not.
func ofCgroup(list []Process, cgroup proc.Cgroup, m *proc.CgroupMemory, hostTotal int64) Host {
	h := Host{LimitKind: "cgroup", Limit: known(m.Limit), Cgroup: cgroup.Path}
	if m.Limit == proc.Unknown {
		h.LimitKind, h.Limit = "host", known(hostTotal)
	}
	var tables, anon int64
	for i := range list {
		c := list[i].Classes
		if c.PageTables != nil {
			tables += *c.PageTables
		}
		anon += list[i].anon
		c.File, c.Shared, c.PageTables = nil, nil, nil
		h.Classes.addAll(c)
	}
	h.Classes.File, h.Classes.Shared = known(m.File), known(m.Shmem)
	if m.PageTables != proc.Unknown {
		tables = m.PageTables
	}
	if m.Kernel != proc.Unknown {
		tables = min(tables, m.Kernel)
		kernel := m.Kernel - tables
		if m.Sock != proc.Unknown && cgroup.Version == 2 { // v1 counts sockets separately from memory
			kernel += m.Sock
		}
		h.Classes.Kernel = &kernel
	}
	h.Classes.PageTables = &tables
	h.Kernel = &Kernel{Anonymous: m.Anon, Processes: anon}
	h.balance(m.Current, h.Classes.named())
	return h
}
