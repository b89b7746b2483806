// Package inventory lists what holds this machine's memory at one moment: the host, the cgroups that limit a Python
// process, the GPUs, and the Python processes themselves. It reads /proc and the GPUs' drivers, starts no process and
// keeps nothing but the means to compute a share of CPU. It knows no session: who is observed is for others to say.
package inventory

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/probe/sampler"
)

// View is the machine at one moment. Sizes are bytes, -1 where nobody tells.
type View struct {
	Time      time.Time
	Host      Host
	Cgroups   []Cgroup
	GPUs      []GPU
	Processes []Process // of Python, the largest first
	More      int       // Python processes beyond maxProcesses
}

// Host is the machine's own memory.
type Host struct {
	Total, Available    int64
	SwapTotal, SwapUsed int64
}

// Cgroup is a cgroup with a limit, in which one of the processes is.
type Cgroup struct {
	Path, LimitPath      string
	Current, Limit, Free int64 // Free: page cache that is given up first
	Processes            int   // of Python, in it
}

// GPU is a device as its driver tells it.
type GPU struct {
	ID                 int
	Name               string
	Used, Total        int64
	Busy, Celsius      int64 // %, °C
	MilliWatt          int64
	State              string // "ok", or why there are no figures
	ComputingProcesses int
}

// Process is a Python process.
type Process struct {
	PID, PPID int
	Start     uint64 // clock ticks since boot
	Age       time.Duration
	RSS, Swap int64
	Anon      int64
	GPU       int64   // bytes of all GPUs; 0 for none
	CPU       float64 // share of one core since the last view, -1 at the first
	State     byte
	Argv      []string
	Cgroup    string
}

// maxProcesses bounds a view: a node of a cluster runs some hundred Python processes; the largest matter.
const maxProcesses = 512

// Machine reads views. It belongs to one goroutine.
type Machine struct {
	fs      proc.FS
	root    string
	gpus    sampler.GPUs
	mounts  proc.CgroupMounts
	samples model.Samples
	python  map[proc1]bool   // that run Python: asked once of each
	others  map[int]bool     // that don't, until the next recount
	ticks   map[proc1]uint64 // CPU time at the last view
	last    time.Time
	views   int
}

// proc1 names a process for good.
type proc1 struct {
	pid   int
	start uint64
}

// Open prepares to read the file system with proc and sys below root; gpus may be nil. Close closes them.
func Open(root string, gpus sampler.GPUs) (*Machine, error) {
	m := &Machine{fs: proc.New(filepath.Join(root, "proc")), root: root, gpus: gpus, others: map[int]bool{}}
	if _, err := m.fs.Meminfo(); err != nil {
		return nil, fmt.Errorf("read the host's memory: %w", err)
	}
	m.mounts, _ = m.fs.CgroupMounts(root) // without mounts no cgroup is known, and the host is the limit
	return m, nil
}

// Close closes the GPUs.
func (m *Machine) Close() {
	if m.gpus != nil {
		m.gpus.Close()
	}
}

// Read takes a view.
func (m *Machine) Read(now time.Time) (View, error) {
	info, err := m.fs.Meminfo()
	if err != nil {
		return View{}, fmt.Errorf("read the host's memory: %w", err)
	}
	v := View{Time: now, Host: Host{Total: info.Total, Available: info.Available, SwapTotal: info.SwapTotal,
		SwapUsed: info.SwapTotal - info.SwapFree}}
	if err := m.readProcesses(&v); err != nil {
		return View{}, err
	}
	m.readGPUs(&v)
	m.readCgroups(&v)
	return v, nil
}

// recountEvery: a PID that ran no Python is asked again after so many views. It may have been given to another process,
// or have called execve: a shell that starts a training does. Asking each takes some 50 µs.
const recountEvery = 5

// readProcesses finds the Python processes. What ends meanwhile is left out.
func (m *Machine) readProcesses(v *View) error {
	pids, err := m.fs.PIDs()
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	up, _ := m.fs.Uptime()
	if m.views++; m.views%recountEvery == 0 {
		clear(m.others)
	}
	python, ticks := map[proc1]bool{}, map[proc1]uint64{}
	for _, pid := range pids {
		if m.others[pid] {
			continue
		}
		u, err := m.fs.Usage(pid)
		if err != nil || u.State == 'Z' {
			continue
		}
		key := proc1{pid, u.Start}
		if !m.python[key] && !m.isPython(pid, u.Comm) {
			m.others[pid] = true
			continue
		}
		python[key], ticks[key] = true, u.UserTicks+u.SystemTicks
		v.Processes = append(v.Processes, m.process(key, u, up, v.Time))
	}
	m.python, m.ticks, m.last = python, ticks, v.Time
	order.By(v.Processes, func(a, b Process) int {
		return cmp.Or(cmp.Compare(b.RSS, a.RSS), cmp.Compare(a.PID, b.PID))
	})
	if n := len(v.Processes); n > maxProcesses {
		v.Processes, v.More = v.Processes[:maxProcesses], n-maxProcesses
	}
	return nil
}

// isPython goes by the program's name, as far as the kernel shows it, and by libpython where another program embeds it.
// The command line of another user's process is readable, its exe and maps are not.
func (m *Machine) isPython(pid int, comm string) bool {
	if strings.HasPrefix(strings.ToLower(comm), "python") {
		return true
	}
	if argv, err := m.fs.Cmdline(pid); err == nil && len(argv) > 0 {
		name := filepath.Base(argv[0])
		if strings.HasPrefix(name, "python") || strings.HasPrefix(name, "pypy") {
			return true
		}
	}
	return m.fs.HasMapped(pid, []string{"libpython"})
}

func (m *Machine) process(key proc1, u proc.Usage, up time.Duration, now time.Time) Process {
	p := Process{PID: key.pid, PPID: u.PPID, Start: key.start, State: u.State, RSS: -1, Swap: -1, Anon: -1, CPU: -1}
	p.Age = up - time.Duration(key.start)*(time.Second/ticksPerSecond)
	if st, err := m.fs.Status(key.pid); err == nil && st.RSS != proc.Unknown {
		p.RSS, p.Swap, p.Anon = st.RSS, st.Swap, st.Anon
	}
	p.Argv, _ = m.fs.Cmdline(key.pid)
	if len(p.Argv) == 0 {
		p.Argv = []string{u.Comm}
	}
	spent := u.UserTicks + u.SystemTicks
	if before, ok := m.ticks[key]; ok && now.After(m.last) && spent >= before {
		p.CPU = float64(spent-before) / ticksPerSecond / now.Sub(m.last).Seconds()
	}
	return p
}

// ticksPerSecond: times in /proc/PID/stat count 1/100 s for every process that reads them (USER_HZ).
const ticksPerSecond = 100

func (m *Machine) readGPUs(v *View) {
	if m.gpus == nil {
		return
	}
	m.samples.GPUs, m.samples.GPUProcs, m.samples.GPUEvents = m.samples.GPUs[:0], m.samples.GPUProcs[:0],
		m.samples.GPUEvents[:0]
	m.samples.Devices = m.samples.Devices[:0]
	m.gpus.Sample(v.Time, func(int) bool { return false }, &m.samples)
	index := map[int]int{}
	for i := range v.Processes {
		index[v.Processes[i].PID] = i
	}
	for _, g := range m.samples.GPUs {
		v.GPUs = append(v.GPUs, GPU{ID: int(g.Device), Name: g.Name, Used: known(g.Used), Total: known(g.Total),
			Busy: known(g.GPUPct), Celsius: known(g.Temperature), MilliWatt: known(g.PowerMW), State: g.State})
	}
	for _, p := range m.samples.GPUProcs {
		for i := range v.GPUs {
			if v.GPUs[i].ID == int(p.Device) {
				v.GPUs[i].ComputingProcesses++
			}
		}
		if i, ok := index[int(p.PID)]; ok && p.Used > 0 {
			v.Processes[i].GPU += p.Used
		}
	}
}

func known(n int64) int64 {
	if n == model.Null {
		return -1
	}
	return n
}

// maxCgroups of a view: one for each job of a node.
const maxCgroups = 16

// readCgroups finds the cgroups that limit the processes.
func (m *Machine) readCgroups(v *View) {
	for i := range v.Processes {
		cg, err := m.fs.Cgroup(v.Processes[i].PID, m.mounts)
		if err != nil {
			continue
		}
		v.Processes[i].Cgroup = cg.Path
		at := slices.IndexFunc(v.Cgroups, func(c Cgroup) bool { return c.Path == cg.Path })
		if at >= 0 {
			v.Cgroups[at].Processes++
			continue
		}
		mem, err := cg.Memory()
		if err != nil || mem.Limit <= 0 || mem.Limit >= v.Host.Total || len(v.Cgroups) == maxCgroups {
			continue
		}
		v.Cgroups = append(v.Cgroups, Cgroup{Path: cg.Path, LimitPath: mem.LimitPath, Current: mem.Current,
			Limit: mem.Limit, Free: max(0, mem.InactiveFile), Processes: 1})
	}
}

// Label names a process shortly: the script or module that it runs.
func (p Process) Label() string {
	for i := 1; i < len(p.Argv); i++ {
		a := p.Argv[i]
		if (a == "-m" || a == "-c") && i+1 < len(p.Argv) {
			return a + " " + p.Argv[i+1]
		}
		if !strings.HasPrefix(a, "-") {
			return filepath.Base(a)
		}
	}
	if len(p.Argv) > 0 {
		return filepath.Base(p.Argv[0])
	}
	return strconv.Itoa(p.PID)
}
