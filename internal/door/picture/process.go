package picture

import (
	"errors"
	"os"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// amount is memory by two counts: resident (RSS), and with shared pages divided among those who share them (PSS).
type amount struct{ rss, pss float64 }

func (a *amount) add(b amount) { a.rss, a.pss = a.rss+b.rss, a.pss+b.pss }

// take moves up to n resident bytes out of a and returns their PSS.
func (a *amount) take(n float64) float64 {
	if a.rss <= 0 || n <= 0 {
		return 0
	}
	part := min(n/a.rss, 1)
	pss := a.pss * part
	a.rss, a.pss = a.rss*(1-part), a.pss*(1-part)
	return pss
}

// anonymous is a process's anonymous memory by the kind of map in which it lies.
type anonymous struct {
	stacks, heap, python, locked, other amount
	heapSize                            float64 // bytes of address space of the heap's maps
}

func (a *anonymous) pss() float64 {
	return a.stacks.pss + a.heap.pss + a.python.pss + a.locked.pss + a.other.pss
}

// processOf reads one process; ok is false if it has ended.
func processOf(fs proc.FS, m Member) (p Process, ok bool) {
	p = Process{PID: m.PID, Role: m.Role, Command: m.Command}
	if m.Rank >= 0 {
		p.Rank = &m.Rank
	}
	st, err := fs.Status(m.PID)
	if err != nil || st.RSS == proc.Unknown {
		return p, false
	}
	p.RSS = st.RSS
	p.Classes.PageTables, p.Classes.Swap = known(st.PageTables), known(st.Swap)
	roll, err := fs.Rollup(m.PID)
	if err != nil {
		p.unread(st, err)
		return p, true
	}
	maps, err := fs.Maps(m.PID)
	if err != nil {
		p.unread(st, err)
		return p, true
	}
	p.PSS = known(roll.PSS)
	if roll.SwapPSS != proc.Unknown {
		p.Classes.Swap = known(roll.SwapPSS)
	}
	p.classify(fs, m, st, roll, maps)
	return p, true
}

// Classify reads what a process's maps are used for, as rows of process.classes have it; ok is false if they can't be
// read.
func Classify(fs proc.FS, m Member) (row model.ProcessClasses, ok bool) {
	p, ok := processOf(fs, m)
	if !ok || p.PSS == nil || p.Note != "" {
		return row, false
	}
	or := func(n *int64) int64 {
		if n == nil {
			return model.Null
		}
		return *n
	}
	c := &p.Classes
	return model.ProcessClasses{PID: int32(m.PID), Rank: int32(m.Rank), PSS: *p.PSS, HeapInUse: or(c.HeapInUse),
		HeapFree: or(c.HeapFree), Python: or(c.PythonArenas), Anonymous: or(c.Anonymous), Stacks: or(c.Stacks),
		File: or(c.File), Shared: or(c.Shared), Pinned: or(c.Pinned)}, true
}

// unread is a process whose maps may not be read. Only status tells its parts, with shared pages counted in full.
func (p *Process) unread(st proc.Status, err error) {
	p.Note = "its maps can't be read: shared pages count in full"
	if errors.Is(err, os.ErrPermission) {
		p.Note = "its maps may not be read by this user: shared pages count in full"
	}
	p.Classes.Anonymous, p.Classes.File, p.Classes.Shared = known(st.Anon), known(st.File), known(st.Shmem)
	p.anon = max(st.Anon, 0)
}

// classify divides the kernel's figures for the whole process (smaps_rollup) in proportion to the parts in its maps.
func (p *Process) classify(fs proc.FS, m Member, st proc.Status, roll proc.Rollup, maps []proc.Map) {
	a, file, shared := sortMaps(maps, stackPointers(fs, m.PID))
	if roll.PSSAnon != proc.Unknown { // otherwise (before Linux 5.9) the maps' own sums are used
		scale := 1.0
		if sum := a.pss(); sum > 0 {
			scale = float64(roll.PSSAnon) / sum
		}
		for _, part := range []*amount{&a.stacks, &a.heap, &a.python, &a.locked, &a.other} {
			part.pss *= scale
		}
		if a.pss() == 0 {
			a.other.pss = float64(roll.PSSAnon)
		}
		file, shared = float64(roll.PSSFile), float64(roll.PSSShmem)
	}
	p.anon = int64(a.pss())
	c := &p.Classes
	set := func(into **int64, v float64) { n := int64(v); *into = &n }
	set(&c.File, file)
	set(&c.Shared, shared)
	set(&c.Stacks, a.stacks.pss)
	pinned := a.locked.pss
	if st.Pinned > 0 {
		pinned += a.other.take(float64(st.Pinned))
	}
	set(&c.Pinned, pinned)
	p.heap(m.Heap, &a, set)
	set(&c.Anonymous, a.other.pss)
}

// heap divides the heap by the agent's report. Blocks with maps of their own, and the arenas of Python's allocator, lie
// among the other anonymous maps: the kernel merges neighbours, so only their sizes are known. Without an agent, memory
// in use can't be separated from free memory; the heap then counts as anonymous.
func (p *Process) heap(h *Heap, a *anonymous, set func(**int64, float64)) {
	c := &p.Classes
	if a.python.rss > 0 { // named by Python 3.15 and later
		set(&c.PythonArenas, a.python.pss)
	} else if h != nil && h.Arenas != nil {
		set(&c.PythonArenas, a.other.take(float64(*h.Arenas)))
	}
	if h == nil {
		a.other.add(a.heap)
		return
	}
	mapped := float64(h.Mapped)
	if h.Mapped == proc.Unknown {
		mapped = max(0, float64(h.Held)-a.heapSize)
	}
	inUse := a.heap.take(float64(h.InUse) - mapped)
	set(&c.HeapFree, a.heap.pss)
	set(&c.HeapInUse, inUse+a.other.take(mapped))
}

// stackPointers are those of all threads that are not running at the moment.
func stackPointers(fs proc.FS, pid int) (list []uint64) {
	for _, tid := range fs.Threads(pid) {
		if sp := fs.StackPointer(pid, tid); sp != 0 {
			list = append(list, sp)
		}
	}
	return list
}

const (
	arenaSize  = 64 << 20 // glibc malloc/arena.c, HEAP_MAX_SIZE on 64 bits: a thread's arena begins at a multiple of it
	stackGuard = 4096     // the least guard below a thread's stack (pthread_attr_setguardsize(3))
	maxGuard   = 1 << 20
)

// sortMaps adds up the maps by their use.
func sortMaps(maps []proc.Map, stackPointers []uint64) (a anonymous, file, shared float64) {
	for i := range maps {
		m := &maps[i]
		var one amount
		one.rss = float64(m.Anonymous)
		if m.RSS > 0 {
			one.pss = float64(m.PSS) * float64(m.Anonymous) / float64(m.RSS)
		}
		rest := float64(m.PSS) - one.pss
		if isShared(m) {
			shared += rest
		} else {
			file += rest
		}
		switch {
		case m.Anonymous == 0:
		case m.Path == "[stack]" || holds(m, stackPointers) || belowGuard(maps, i):
			a.stacks.add(one)
		case m.Locked > 0:
			a.locked.add(one)
		case m.Path == "[heap]" || isArena(maps, i) || strings.HasPrefix(m.Path, "[anon: glibc: malloc"):
			a.heap.add(one)
			a.heapSize += float64(m.Size())
		case strings.Contains(m.Path, "cpython:pymalloc"):
			a.python.add(one)
		default:
			a.other.add(one)
		}
	}
	return a, file, shared
}

// isShared reports whether memory lies on tmpfs or has no file at all.
func isShared(m *proc.Map) bool {
	if len(m.Perms) == 4 && m.Perms[3] == 's' && m.Path == "" {
		return true
	}
	for _, p := range []string{"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "[anon_shmem"} {
		if strings.HasPrefix(m.Path, p) {
			return true
		}
	}
	return false
}

func holds(m *proc.Map, pointers []uint64) bool {
	if m.Path != "" || !strings.HasPrefix(m.Perms, "rw") {
		return false
	}
	for _, sp := range pointers {
		if m.Start <= sp && sp < m.End {
			return true
		}
	}
	return false
}

// belowGuard recognises the stack of a thread that is running by the guard that glibc puts below it
// (nptl/allocatestack.c): a small map without any rights, right before a map of the usual stack size less the guard.
func belowGuard(maps []proc.Map, i int) bool {
	if i == 0 || maps[i].Path != "" || maps[i].Perms != "rw-p" {
		return false
	}
	g := &maps[i-1]
	size := maps[i].Size() + g.Size()
	return g.Perms == "---p" && g.Path == "" && g.End == maps[i].Start && g.Size() >= stackGuard &&
		g.Size() <= maxGuard &&
		(size == 8<<20 || maps[i].Size() == 8<<20)
}

// isArena recognises a map that begins at a multiple of 64 MiB and is followed by the rest of the arena, reserved.
func isArena(maps []proc.Map, i int) bool {
	m := &maps[i]
	if m.Path != "" || m.Perms != "rw-p" || m.Start%arenaSize != 0 || m.Size() > arenaSize {
		return false
	}
	if m.Size() == arenaSize {
		return true
	}
	return i+1 < len(maps) && maps[i+1].Start == m.End && maps[i+1].Perms == "---p" &&
		maps[i+1].End == m.Start+arenaSize
}
