// Package doctor finds out what memgauge can do on this machine. There is one check for each capability: what it found,
// and if something is missing, why, and what to do. It reads files, calls the GPU's driver and starts Python once. It
// changes nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/gpu/discover"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
)

// States of a check.
const (
	Works   = "works"
	Limited = "limited" // works, but less well than it could
	Absent  = "absent"  // not there, which may be normal
	Broken  = "broken"  // memgauge needs it
)

// Check is one capability.
type Check struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Found string `json:"found"`          // what there is, or why there is none
	Hint  string `json:"hint,omitempty"` // what to do
}

// Figures are the basis of the suggestions. Bytes; 0 is none or unknown.
type Figures struct {
	CPUs          int   `json:"cpus"` // that this process may use, by affinity and the cgroup's quota
	HostBytes     int64 `json:"host_memory_bytes"`
	LimitBytes    int64 `json:"memory_limit_bytes"` // the lower of host and cgroup
	FreeBytes     int64 `json:"memory_free_bytes"`  // free memory below that limit
	ShmFreeBytes  int64 `json:"shm_free_bytes"`
	DiskFreeBytes int64 `json:"disk_free_bytes"` // where sessions lie
	GPUs          int   `json:"gpus"`
	GPUFreeBytes  int64 `json:"gpu_free_bytes"` // of the GPU with the least free memory
}

// Suggestions for a training on this machine.
type Suggestions struct {
	Workers   int      `json:"num_workers"`
	BatchSize int      `json:"batch_size"`
	Notes     []string `json:"notes"`
}

// Report has all checks, figures and suggestions.
type Report struct {
	Checks      []Check     `json:"checks"`
	Figures     Figures     `json:"figures"`
	Suggestions Suggestions `json:"suggestions"`
}

// Broken reports whether something that memgauge needs does not work.
func (r Report) Broken() bool {
	for _, c := range r.Checks {
		if c.State == Broken {
			return true
		}
	}
	return false
}

// Machine says where to search; tests use a recorded tree.
type Machine struct {
	Root   string // of the file system, "/"
	Home   string // where sessions lie
	Python string // "" for python3 of PATH
}

// Here is this machine, with the interpreter that is to be examined; "" for python3.
func Here(python string) (Machine, error) {
	home, err := session.Home()
	return Machine{Root: "/", Home: home, Python: python}, err
}

// Examine makes all checks.
func (m Machine) Examine(ctx context.Context) Report {
	var r Report
	fs := proc.New(filepath.Join(m.Root, "proc"))
	r.Figures.CPUs = runtime.GOMAXPROCS(0) // Go considers affinity and quota: runtime.GOMAXPROCS, since 1.25
	r.Checks = append(r.Checks, m.sessions(&r.Figures), disk("."))
	r.Checks = append(r.Checks, m.python(ctx)...)
	r.Checks = append(r.Checks, m.memory(fs, &r.Figures), m.cgroup(fs, &r.Figures), m.pressure(fs), m.shm(&r.Figures),
		cpu(fs, &r.Figures))
	r.Checks = append(r.Checks, m.rollup(fs), m.ptrace(), fenced(cell.Landlock()))
	r.Checks = append(r.Checks, m.gpus(&r.Figures)...)
	r.Suggestions = suggest(r.Figures)
	return r
}

// minDisk is what a session takes by default at most.
const minDisk = 2 << 30

func (m Machine) sessions(f *Figures) Check {
	c := Check{Name: "sessions", State: Works}
	dir := m.Home
	for { // the nearest existing directory
		st, err := os.Stat(dir)
		if err == nil && !st.IsDir() {
			return Check{c.Name, Broken, dir + " is not a directory", "set MEMGAUGE_HOME to a writable directory"}
		}
		if err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return Check{c.Name, Broken, fmt.Sprintf("%s can't be written: %v", dir, err),
			"set MEMGAUGE_HOME to a writable directory"}
	}
	total, used, err := proc.Space(dir)
	if err != nil {
		return Check{c.Name, Broken, err.Error(), "set MEMGAUGE_HOME to another file system"}
	}
	f.DiskFreeBytes = total - used
	kind, network, err := proc.NetworkFS(dir)
	c.Found = fmt.Sprintf("%s, %s free", m.Home, units.Bytes(f.DiskFreeBytes))
	switch {
	case f.DiskFreeBytes < minDisk:
		c.State, c.Hint = Limited, "give run --max-disk, or set MEMGAUGE_HOME to a file system with more room"
	case err == nil && network:
		c.State, c.Found, c.Hint = Limited, c.Found+", on "+kind, "rings and sockets go to "+os.TempDir()+
			"; a local MEMGAUGE_HOME keeps everything in one place"
	}
	return c
}

// fenced tells what holds a process that answers questions from outside: to a hub, a page, an assistant.
func fenced(landlock int) Check {
	c := Check{Name: "questions from outside", State: Works,
		Found: fmt.Sprintf("answered by processes that Landlock (version %d) holds to what they are about", landlock)}
	if landlock > 0 {
		return c
	}
	c.State, c.Found = Limited, "no Landlock in this kernel: the processes that answer them may read your files, and "+
		"write them too unless root started them; they have bounded memory and no sockets"
	c.Hint = "Linux has it since 5.13, where it is among the security modules (lsm= of the kernel)"
	return c
}

// minRoom is what checkpoints and logs of a small training take.
const minRoom = 10 << 30

// disk is the one that a training started here would write to.
func disk(dir string) Check {
	c := Check{Name: "disk", State: Works}
	total, used, err := proc.Space(dir)
	if err != nil {
		return Check{c.Name, Limited, err.Error(), "checkpoints of a training started here would go there"}
	}
	c.Found = fmt.Sprintf("%s free of %s in the working directory", units.Bytes(total-used), units.Bytes(total))
	if total-used < minRoom {
		c.State, c.Hint = Limited, "checkpoints and logs of a training started here go there: make room"
	}
	return c
}

func (m Machine) memory(fs proc.FS, f *Figures) Check {
	info, err := fs.Meminfo()
	if err != nil {
		return Check{"host memory", Broken, err.Error(), "mount /proc"}
	}
	f.HostBytes, f.LimitBytes, f.FreeBytes = info.Total, info.Total, max(info.Available, 0)
	c := Check{"host memory", Works, fmt.Sprintf("%s, %s available, swap %s", units.Bytes(info.Total),
		units.Bytes(max(info.Available, 0)), units.Bytes(max(info.SwapTotal, 0))), ""}
	if info.OOMKills == proc.Unknown {
		c.State, c.Found, c.Hint = Limited, c.Found+"; the kernel counts no OOM kills",
			"a kill on the host is told by the command's exit only; Linux 4.13 and later count them"
	}
	return c
}

func (m Machine) cgroup(fs proc.FS, f *Figures) Check {
	c := Check{Name: "cgroup", State: Works}
	mounts, err := fs.CgroupMounts(m.Root)
	var cg proc.Cgroup
	if err == nil {
		cg, err = fs.Cgroup(fs.Self(), mounts)
	}
	if err != nil {
		return Check{c.Name, Absent, fmt.Sprintf("no memory cgroup is seen: %v", err),
			"limits are then those of the host; mount the memory controller below /sys/fs/cgroup to see others"}
	}
	mem, err := cg.Memory()
	if err != nil {
		hint := "the root cgroup counts nothing; a job in a container or a systemd unit has a cgroup of its own"
		if !errors.Is(err, os.ErrNotExist) {
			hint = "let this user read " + cg.Path
		}
		return Check{c.Name, Absent, fmt.Sprintf("version %d, %s: %v", cg.Version, cg.Path, err), hint}
	}
	if mem.Limit == proc.Unknown || f.HostBytes > 0 && mem.Limit >= f.HostBytes {
		c.Found = fmt.Sprintf("version %d, %s charged, no limit below the host's", cg.Version, units.Bytes(mem.Current))
		return c
	}
	f.LimitBytes = mem.Limit
	f.FreeBytes = min(f.FreeBytes, mem.Limit-mem.Current+max(mem.InactiveFile, 0))
	c.Found = fmt.Sprintf("version %d, %s charged of %s (limit of %s)", cg.Version, units.Bytes(mem.Current),
		units.Bytes(mem.Limit), mem.LimitPath)
	return c
}

func (m Machine) pressure(fs proc.FS) Check {
	p := fs.Pressure()
	if !p.Known {
		return Check{"memory pressure", Absent, "the kernel has no PSI",
			"boot with psi=1 to see how long tasks wait for memory"}
	}
	return Check{"memory pressure", Works, fmt.Sprintf("some tasks waited %.1f %% of the last 10 s", p.SomeAvg10), ""}
}

// minShm: four workers with two batches of 64 MiB each in transit.
const minShm = 512 << 20

func (m Machine) shm(f *Figures) Check {
	total, used, err := proc.Space(filepath.Join(m.Root, "dev", "shm"))
	if err != nil {
		return Check{"/dev/shm", Absent, err.Error(),
			"data-loader workers pass tensors through it: mount a tmpfs there, or use num_workers=0"}
	}
	f.ShmFreeBytes = total - used
	c := Check{"/dev/shm", Works, fmt.Sprintf("%s free of %s", units.Bytes(total-used), units.Bytes(total)), ""}
	if f.ShmFreeBytes < minShm {
		c.State, c.Hint = Limited,
			"data-loader workers pass tensors through it: docker run --shm-size 8g, or an emptyDir with medium "+
				"Memory in Kubernetes"
	}
	return c
}

func cpu(fs proc.FS, f *Figures) Check {
	c := Check{"CPU", Works, fmt.Sprintf("%d usable of %d", f.CPUs, runtime.NumCPU()), ""}
	if load, err := fs.LoadAverage(); err == nil {
		c.Found += fmt.Sprintf(", load %.1f", load)
		if load > 2*float64(f.CPUs) {
			c.State, c.Hint = Limited, "more runs here than there are cores: timings will waver"
		}
	}
	return c
}

func (m Machine) rollup(fs proc.FS) Check {
	if _, err := fs.Rollup(fs.Self()); err != nil {
		return Check{"shared memory by process", Limited, fmt.Sprintf("smaps_rollup: %v", err),
			"pages that processes share then count in full for each; Linux 4.14 and later have it"}
	}
	return Check{"shared memory by process", Works, "smaps_rollup", ""}
}

// ptrace is needed for attaching, and for reading other users' processes.
func (m Machine) ptrace() Check {
	c := Check{Name: "attach", State: Works, Found: "processes of this user"}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return Check{c.Name, Absent, "its machine code is for x86-64 and aarch64 only",
			"memgauge run needs none of this"}
	}
	// a thread that never exists: without a filter, and in a kernel that is no emulator's, that is the error
	if err := unix.PtraceSeize(0); !errors.Is(err, unix.ESRCH) {
		return Check{c.Name, Absent, fmt.Sprintf("ptrace: %v", err),
			"memgauge run needs none of this; old containers allow it with --cap-add SYS_PTRACE"}
	}
	if os.Geteuid() == 0 {
		c.Found = "processes of all users"
	}
	text, err := os.ReadFile(filepath.Join(m.Root, "proc/sys/kernel/yama/ptrace_scope"))
	if err != nil {
		return c // no Yama: the usual rules apply
	}
	switch scope := strings.TrimSpace(string(text)); scope {
	case "0":
	case "1":
		if os.Geteuid() != 0 {
			c.State, c.Found, c.Hint = Limited, "ptrace_scope=1: a process's parents alone",
				"run as root, or echo 0 > /proc/sys/kernel/yama/ptrace_scope; memgauge run needs none of this"
		}
	case "2":
		if os.Geteuid() != 0 {
			c.State, c.Found, c.Hint = Absent, "ptrace_scope=2: root alone",
				"run as root; memgauge run needs none of this"
		}
	default:
		c.State, c.Found, c.Hint = Absent, "ptrace_scope="+scope+": nobody until the next boot",
			"memgauge run needs none of this"
	}
	return c
}

// hot is the temperature in °C from which NVIDIA's drivers begin to slow GPUs down, 83 to 90 by model.
const hot = 85

func (m Machine) gpus(f *Figures) []Check {
	found := discover.Open(m.Root, nil)
	c := Check{Name: "NVIDIA GPUs", State: Works}
	if found.NVIDIA != nil {
		c.State, c.Found, c.Hint = Absent, found.NVIDIA.Error(),
			"in a container: --gpus all, or the NVIDIA container toolkit; without such a GPU this is as it should be"
	}
	checks := []Check{c, {"AMD and Intel GPUs", Absent, "none in /sys/class/drm", ""}}
	if found.DRM > 0 {
		checks[1].State, checks[1].Found = Works, fmt.Sprintf("%d", found.DRM)
	}
	if found.Set == nil {
		return checks
	}
	defer found.Set.Close()
	var rows model.Samples
	found.Set.Sample(time.Now(), func(int) bool { return false }, &rows)
	var list []string
	for _, g := range rows.GPUs {
		if g.State != "ok" {
			checks[0].State = Limited
			list = append(list, fmt.Sprintf("%d %s: %s", g.Device, g.Name, g.State))
			continue
		}
		f.GPUs++
		text := fmt.Sprintf("%d %s", g.Device, g.Name)
		if g.Free != model.Null && g.Total != model.Null {
			text += fmt.Sprintf(", %s free of %s", units.Bytes(g.Free), units.Bytes(g.Total))
			if f.GPUFreeBytes == 0 || g.Free < f.GPUFreeBytes {
				f.GPUFreeBytes = g.Free
			}
		}
		if g.Temperature != model.Null {
			text += fmt.Sprintf(", %d °C", g.Temperature)
			if g.Temperature >= hot {
				checks[0].State, checks[0].Hint = Limited,
					"a GPU this hot slows down: see to its cooling, or lower its power limit"
			}
		}
		list = append(list, text)
	}
	if found.NVIDIA == nil {
		checks[0].Found = fmt.Sprintf("driver %s, CUDA up to %d.%d; %s", strings.TrimPrefix(found.Driver, "nvidia "),
			found.CUDA/1000, found.CUDA%1000/10, strings.Join(list, "; "))
	} else {
		checks[1].Found = strings.Join(list, "; ")
	}
	return checks
}

// suggest is a first guess from the machine alone: it does not know what a model needs.
func suggest(f Figures) Suggestions {
	var s Suggestions
	// one core for the trainer; more than 8 for each GPU seldom help
	s.Workers = min(max(f.CPUs-1, 0), 8*max(f.GPUs, 1))
	if perWorker := int64(512 << 20); f.FreeBytes > 0 && int64(s.Workers)*perWorker > f.FreeBytes/2 {
		s.Workers = int(f.FreeBytes / 2 / perWorker)
		s.Notes = append(s.Notes, "workers are held down by memory: each takes some 0.5 GiB with torch loaded")
	}
	if f.ShmFreeBytes > 0 && f.ShmFreeBytes < minShm && s.Workers > 0 {
		s.Notes = append(s.Notes, "/dev/shm is small: workers will fail with bus errors on large batches")
	}
	room, where := f.FreeBytes, "host memory"
	if f.GPUs > 0 && f.GPUFreeBytes > 0 {
		room, where = f.GPUFreeBytes, "GPU memory"
	}
	s.BatchSize = 4
	for size := int64(4 << 30); room >= size && s.BatchSize < 128; size *= 2 {
		s.BatchSize *= 2
	}
	s.Notes = append(s.Notes,
		fmt.Sprintf("the batch size goes by %s free in %s alone; try it, and see with memgauge where",
			units.Bytes(max(room, 0)), where))
	if f.LimitBytes > 0 && f.LimitBytes < f.HostBytes {
		s.Notes = append(s.Notes, fmt.Sprintf("memory is limited to %s by the cgroup, whatever the host has",
			units.Bytes(f.LimitBytes)))
	}
	return s
}
