package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// ErrNoCgroup means that a process is in no cgroup whose memory is counted.
var ErrNoCgroup = errors.New("no memory cgroup")

// Cgroup is a memory cgroup as this process sees it.
type Cgroup struct {
	Version int    // 1, 2
	Path    string // below the mount, "/" for its root
	mount   string // where its hierarchy is mounted, below the file system's root
}

// noLimit: v1 writes "no limit" as a number near 2^63 (PAGE_COUNTER_MAX pages); no machine has a pebibyte.
const noLimit = 1 << 50

// CgroupMounts are the hierarchies in which memory may be counted.
type CgroupMounts struct{ list []cgroupMount }

// Cgroup finds the memory cgroup of a process. Processes are moved now and then, mounts are not: so callers read the
// mounts once.
func (f FS) Cgroup(pid int, mounts CgroupMounts) (Cgroup, error) {
	text, err := readText(f.path(pid, "cgroup"), make([]byte, 0, 1024))
	if err != nil {
		return Cgroup{}, err
	}
	v1, v2 := parseCgroup(text)
	for _, m := range mounts.list {
		p, version := v2, 2
		if !m.v2 {
			p, version = v1, 1
		}
		if p == "" || m.v2 && v1 != "" {
			continue // the memory controller is the v1 hierarchy's
		}
		return Cgroup{Version: version, Path: below(p, m.root), mount: m.point}, nil
	}
	return Cgroup{}, fmt.Errorf("process %d: %w", pid, ErrNoCgroup)
}

// parseCgroup reads /proc/PID/cgroup, lines "ID:CONTROLLERS:PATH" (cgroups(7)).
func parseCgroup(text []byte) (v1, v2 string) {
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		p := path.Clean(strings.TrimSuffix(parts[2], " (deleted)"))
		switch {
		case parts[0] == "0" && parts[1] == "":
			v2 = p
		case containsWord(parts[1], "memory"):
			v1 = p
		}
	}
	return v1, v2
}

func containsWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// below gives a cgroup's path below its mount. In a container without a cgroup namespace /proc/PID/cgroup has the
// host's path, while the mount shows only the container's part of the hierarchy; that part is the mount's root.
func below(p, root string) string {
	if root == "/" || root == "" {
		return p
	}
	if rest, ok := strings.CutPrefix(p, root); ok && (rest == "" || rest[0] == '/') {
		return path.Join("/", rest)
	}
	return "/"
}

type cgroupMount struct {
	point, root string
	v2          bool
}

// CgroupMounts reads /proc/self/mountinfo (proc_pid_mountinfo(5)): "36 35 98:0 ROOT POINT OPTIONS … - TYPE SOURCE
// SUPER". host is the root of the file system in which they are mounted, "/" for the machine itself.
func (f FS) CgroupMounts(host string) (CgroupMounts, error) {
	text, err := os.ReadFile(filepath.Join(f.root, "self", "mountinfo"))
	if err != nil {
		return CgroupMounts{}, err
	}
	return parseMounts(text, host), nil
}

func parseMounts(text []byte, host string) (all CgroupMounts) {
	for line := range bytes.Lines(text) {
		before, after, ok := bytes.Cut(line, []byte(" - "))
		left, right := bytes.Fields(before), bytes.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		m := cgroupMount{root: unescape(string(left[3])), point: filepath.Join(host, unescape(string(left[4])))}
		switch string(right[0]) {
		case "cgroup2":
			m.v2 = true
		case "cgroup":
			if !containsWord(string(right[2]), "memory") {
				continue
			}
		default:
			continue
		}
		all.list = append(all.list, m)
	}
	return all
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func (c Cgroup) file(name string) string { return filepath.Join(c.mount, c.Path, name) }

// CgroupMemory is what a cgroup's memory controller reports, for the cgroup and all below it. Bytes; Unknown where
// there is no such file or line.
type CgroupMemory struct {
	Current, Peak, Swap, SwapMax int64
	// its own limit; the lowest limit up the tree; the lowest memory.high up the tree
	Max, Limit, High                                           int64
	LimitPath                                                  string
	Anon, File, Shmem, Kernel, KernelStack, PageTables         int64
	Slab, SlabReclaimable, Sock                                int64
	InactiveAnon, ActiveAnon, InactiveFile, ActiveFile         int64
	Unevictable, FileMapped, FileDirty, FileWriteback          int64
	Faults, MajorFaults, RefaultFile, RefaultAnon              int64
	EventsLow, EventsHigh, EventsMax, EventsOOM, EventsOOMKill int64
	Pressure                                                   Pressure
}

// Memory reads a cgroup. The limits up the tree are read each time: they may be changed while a job runs.
func (c Cgroup) Memory() (CgroupMemory, error) {
	if c.Version == 1 {
		return c.memoryV1()
	}
	return c.memoryV2()
}

// Current is the present charge alone: one short read.
func (c Cgroup) Current() (int64, error) {
	if c.Version == 1 {
		return readNumber(c.file("memory.usage_in_bytes"), noLimit)
	}
	return readNumber(c.file("memory.current"), noLimit)
}

// OOMKills counts the processes that the OOM killer has taken in the cgroup and below (v1: in the cgroup itself).
func (c Cgroup) OOMKills() int64 {
	name := "memory.events"
	if c.Version == 1 {
		name = "memory.oom_control"
	}
	var n int64
	var buf [512]byte
	text, err := readText(c.file(name), buf[:0])
	if err != nil {
		return Unknown
	}
	pick(text, map[string]*int64{"oom_kill": &n})
	return n
}

// Processes lists the processes of the cgroup itself and of those below it, at most maxMembers.
func (c Cgroup) Processes() ([]int, error) {
	var list []int
	err := filepath.WalkDir(c.file(""), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == c.file("") {
				return err
			}
			return nil // removed meanwhile
		}
		if !d.IsDir() || len(list) >= maxMembers {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(name, "cgroup.procs"))
		if err != nil {
			return nil
		}
		for f := range bytes.FieldsSeq(text) {
			if pid, err := natural(f); err == nil && pid > 0 && len(list) < maxMembers {
				list = append(list, pid)
			}
		}
		return nil
	})
	return list, err
}

const maxMembers = 65536 // PIDs of a large machine's container; more are not read one by one

func (c Cgroup) memoryV2() (m CgroupMemory, err error) {
	if m.Current, err = c.Current(); err != nil {
		return m, err
	}
	m.Peak, _ = readNumber(c.file("memory.peak"), noLimit)
	m.Swap, _ = readNumber(c.file("memory.swap.current"), noLimit)
	m.SwapMax, _ = readNumber(c.file("memory.swap.max"), noLimit)
	m.Max, _ = readNumber(c.file("memory.max"), noLimit)
	m.Limit, m.LimitPath = c.lowest("memory.max")
	m.High, _ = c.lowest("memory.high")
	text, err := readText(c.file("memory.stat"), make([]byte, 0, 4096))
	if err != nil {
		return m, err
	}
	m.statV2(text)
	text, _ = readText(c.file("memory.events"), make([]byte, 0, 512))
	pick(text, map[string]*int64{"low": &m.EventsLow, "high": &m.EventsHigh, "max": &m.EventsMax, "oom": &m.EventsOOM,
		"oom_kill": &m.EventsOOMKill})
	m.Pressure = ReadPressure(c.file("memory.pressure"))
	return m, nil
}

// statV2 reads memory.stat (Documentation/admin-guide/cgroup-v2.rst): file holds shmem too, which is taken out.
func (m *CgroupMemory) statV2(text []byte) {
	pick(text, map[string]*int64{
		"anon": &m.Anon, "file": &m.File, "shmem": &m.Shmem, "kernel": &m.Kernel, "kernel_stack": &m.KernelStack,
		"pagetables": &m.PageTables, "slab": &m.Slab, "slab_reclaimable": &m.SlabReclaimable, "sock": &m.Sock,
		"inactive_anon": &m.InactiveAnon, "active_anon": &m.ActiveAnon, "inactive_file": &m.InactiveFile,
		"active_file": &m.ActiveFile, "unevictable": &m.Unevictable, "file_mapped": &m.FileMapped,
		"file_dirty":     &m.FileDirty,
		"file_writeback": &m.FileWriteback, "pgfault": &m.Faults, "pgmajfault": &m.MajorFaults,
		"workingset_refault_file": &m.RefaultFile, "workingset_refault_anon": &m.RefaultAnon,
	})
	m.File = minus(m.File, m.Shmem)
	if m.Kernel == Unknown && m.KernelStack != Unknown { // before 5.18 there was no sum
		m.Kernel = m.KernelStack + max(m.PageTables, 0) + max(m.Slab, 0)
	}
	m.Faults = minus(m.Faults, m.MajorFaults)
}

func (c Cgroup) memoryV1() (m CgroupMemory, err error) {
	if m.Current, err = c.Current(); err != nil {
		return m, err
	}
	text, err := readText(c.file("memory.stat"), make([]byte, 0, 4096))
	if err != nil {
		return m, err
	}
	m.statV1(text)
	m.Peak, _ = readNumber(c.file("memory.max_usage_in_bytes"), noLimit)
	m.Max, _ = readNumber(c.file("memory.limit_in_bytes"), noLimit)
	hierarchical := m.Limit
	m.Limit, m.LimitPath = c.lowest("memory.limit_in_bytes")
	if hierarchical != Unknown && (m.Limit == Unknown || hierarchical < m.Limit) {
		m.Limit, m.LimitPath = hierarchical, "above "+c.Path // the limit of a cgroup that the container can't see
	}
	m.High = Unknown
	if swap, err := readNumber(c.file("memory.memsw.limit_in_bytes"), noLimit); err == nil && swap != Unknown &&
		m.Max != Unknown {
		m.SwapMax = max(swap-m.Max, 0)
	} else {
		m.SwapMax = Unknown
	}
	if m.Kernel, err = readNumber(c.file("memory.kmem.usage_in_bytes"), noLimit); err != nil {
		m.Kernel = Unknown
	}
	m.Sock, _ = readNumber(c.file("memory.kmem.tcp.usage_in_bytes"), noLimit)
	m.EventsMax, _ = readNumber(c.file("memory.failcnt"), noLimit)
	m.EventsOOMKill = c.OOMKills()
	m.EventsLow, m.EventsHigh, m.EventsOOM = Unknown, Unknown, Unknown
	m.KernelStack, m.PageTables, m.Slab, m.SlabReclaimable = Unknown, Unknown, Unknown, Unknown
	return m, nil
}

// statV1 reads memory.stat (Documentation/admin-guide/cgroup-v1/memory.rst). The total_ lines stand for the cgroup and
// all below; cache holds shmem too, rss is anonymous memory only.
func (m *CgroupMemory) statV1(text []byte) {
	pick(text, map[string]*int64{
		"total_rss": &m.Anon, "total_cache": &m.File, "total_shmem": &m.Shmem, "total_swap": &m.Swap,
		"total_inactive_anon": &m.InactiveAnon, "total_active_anon": &m.ActiveAnon,
		"total_inactive_file": &m.InactiveFile,
		"total_active_file":   &m.ActiveFile, "total_unevictable": &m.Unevictable, "total_mapped_file": &m.FileMapped,
		"total_dirty": &m.FileDirty, "total_writeback": &m.FileWriteback, "total_pgfault": &m.Faults,
		"total_pgmajfault": &m.MajorFaults, "total_workingset_refault_file": &m.RefaultFile,
		"total_workingset_refault_anon": &m.RefaultAnon, "hierarchical_memory_limit": &m.Limit,
	})
	if m.Limit >= noLimit {
		m.Limit = Unknown
	}
	m.File = minus(m.File, m.Shmem)
	m.Faults = minus(m.Faults, m.MajorFaults)
}

// minus subtracts known values; counters that are read one after the other may cross.
func minus(a, b int64) int64 {
	if a == Unknown || b == Unknown {
		return a
	}
	return max(a-b, 0)
}

// lowest returns the lowest limit of the cgroup and those above it, as far as they are mounted, and which cgroup has
// it.
func (c Cgroup) lowest(name string) (limit int64, at string) {
	limit = Unknown
	for p := c.Path; ; p = path.Dir(p) {
		n, err := readNumber(filepath.Join(c.mount, p, name), noLimit)
		if err == nil && n != Unknown && (limit == Unknown || n < limit) {
			limit, at = n, p
		}
		if p == "/" || p == "." {
			return limit, at
		}
	}
}
