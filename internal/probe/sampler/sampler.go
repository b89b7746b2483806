// Package sampler samples a job from outside: its processes, their cgroup, the host and the GPUs, as rows of
// model.Samples. A Sampler belongs to one goroutine. It keeps what it needs from one sample to the next: which
// processes belong to the job, CPU times, and when a costly source may be read again. It needs no session and no
// database, and starts no process. What it can't read is NULL in the rows, never an error that ends the sampling.
package sampler

import (
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// Options may be empty: then the host, its GPUs, and no process are sampled.
type Options struct {
	// Root is the file system in which proc, sys and dev are found: "/" if empty, a recording in tests.
	Root string
	// Roots are the processes that, with all their descendants, are the job.
	Roots func() []int
	// About returns what is known about a process from inside; nil if nothing is.
	About func(pid int) About
	// GPUs are read once in each sample; none if nil (SetGPUs may come later). The sampler closes it.
	GPUs GPUs
	// Now is time.Now if nil.
	Now func() time.Time
}

// About is what a process's agent has reported.
type About struct {
	Rank                int32 // -1 unknown
	Trainer             bool  // it has loaded PyTorch: it trains, or may
	Steps               bool  // it has made steps of training
	HeapInUse, HeapHeld int64 // bytes; model.Null if not known
}

// Nothing is the About of a process without an agent.
var Nothing = About{Rank: -1, HeapInUse: model.Null, HeapHeld: model.Null}

// GPUs adds the rows of this machine's GPUs (gpu.Set). inJob says which processes are the job's, by their PIDs here.
// Sample returns the CPU time that its own threads took.
type GPUs interface {
	SetVisible(value string, set bool) // CUDA_VISIBLE_DEVICES of the job
	Sample(at time.Time, inJob func(pid int) bool, into *model.Samples) time.Duration
	Close()
}

// Parts of sampling, as memgauge.overhead names them.
const (
	partProcesses = "sampler: processes"
	partRollup    = "sampler: smaps_rollup"
	partThreads   = "sampler: threads"
	partCgroup    = "sampler: cgroup"
	partHost      = "sampler: host"
	partGPU       = "sampler: gpu"
	partGlance    = "sampler: glance"
)

// Sampler takes samples, one after the other.
type Sampler struct {
	o       Options
	fs      proc.FS
	members *members
	threads threadBudget
	rollups rollupBudget
	cgroups cgroups
	window  window
	kills   killWatch
	last    time.Time // time of the previous sample; zero at the first
	pids    atomic.Pointer[[]int]
	total   int64 // the host's memory, bytes; Null until it was read
	out     model.Samples
	costs   costs
}

// New makes a Sampler. It opens no file before the first Sample.
func New(o Options) *Sampler {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.About == nil {
		o.About = func(int) About { return Nothing }
	}
	fs := proc.New(filepath.Join(o.Root, "proc"))
	return &Sampler{o: o, fs: fs, members: newMembers(fs), total: model.Null, cgroups: cgroups{fs: fs, root: o.Root}}
}

// SetGPUs selects the GPUs that are sampled from now on.
func (s *Sampler) SetGPUs(g GPUs) { s.o.GPUs = g }

// Sample reads everything once. The rows belong to the caller until the next call, which reuses their memory.
func (s *Sampler) Sample() *model.Samples {
	runtime.LockOSThread() // the thread's CPU time is reported as our cost
	defer runtime.UnlockOSThread()
	s.out.Reset()
	now := s.o.Now()
	elapsed := time.Duration(0)
	if !s.last.IsZero() {
		elapsed = max(now.Sub(s.last), 0)
	}
	s.last = now
	s.costs.covered += elapsed
	s.costs.measure(partHost, func() { s.host(now) })
	before := threadTime()
	s.cgroups.ahead()
	s.costs.add(partCgroup, threadTime()-before, 0) // read() counts the part
	s.costs.measure(partProcesses, func() { s.processes(now) })
	s.costs.measure(partRollup, func() { s.rollups.read(s, now, elapsed) })
	s.costs.measure(partThreads, func() { s.threads.read(s, now, elapsed) })
	s.costs.measure(partCgroup, func() { s.cgroups.read(s, now) })
	if s.o.GPUs != nil {
		elsewhere := time.Duration(0)
		s.costs.measure(partGPU, func() {
			elsewhere = s.o.GPUs.Sample(now, s.members.has, &s.out)
			s.nameGPUProcesses()
		})
		s.costs.add(partGPU, elsewhere, 0)
	}
	return &s.out
}

// nameGPUProcesses fills in the names that a driver does not tell.
func (s *Sampler) nameGPUProcesses() {
	for i := range s.out.GPUProcs {
		p := &s.out.GPUProcs[i]
		if p.Comm != "" {
			continue
		}
		if m := s.members.byPID[int(p.PID)]; m != nil {
			p.Comm = m.usage.Comm
		} else if u, err := s.fs.Usage(int(p.PID)); err == nil {
			p.Comm = u.Comm
		}
	}
}

// PIDs lists the job's processes at the last sample. It may be called from any goroutine.
func (s *Sampler) PIDs() []int {
	if list := s.pids.Load(); list != nil {
		return slices.Clone(*list)
	}
	return nil
}

// Last is when the last sample was taken.
func (s *Sampler) Last() time.Time { return s.last }

// Close closes the GPUs and open files.
func (s *Sampler) Close() {
	s.window.close()
	if s.o.GPUs != nil {
		s.o.GPUs.Close()
	}
}

// host reads the machine's memory.
func (s *Sampler) host(now time.Time) {
	m, err := s.fs.Meminfo()
	if err != nil {
		return
	}
	s.total = m.Total
	row := model.HostMemory{Time: now.UnixMicro(), Total: m.Total, Available: m.Available, Free: m.Free,
		Buffers: m.Buffers, Cached: m.Cached, Anon: m.Anon, Mapped: m.Mapped, Shmem: m.Shmem, Slab: m.Slab,
		SlabReclaimable: m.SlabReclaimable, KernelStack: m.KernelStack, PageTables: m.PageTables, Dirty: m.Dirty,
		Writeback: m.Writeback, Mlocked: m.Mlocked, SwapTotal: m.SwapTotal, SwapFree: m.SwapFree,
		Committed: m.Committed, CommitLimit: m.CommitLimit, HugeTotal: product(m.HugePages, m.HugeSize),
		HugeFree: product(m.HugeFree, m.HugeSize), OOMKills: m.OOMKills, Pressure: pressure(s.fs.Pressure())}
	row.ShmTotal, row.ShmUsed = model.Null, model.Null
	if total, used, err := proc.Space(filepath.Join(s.o.Root, "dev", "shm")); err == nil {
		row.ShmTotal, row.ShmUsed = total, used
	}
	s.out.Hosts = append(s.out.Hosts, row)
}

func product(a, b int64) int64 {
	if a == model.Null || b == model.Null {
		return model.Null
	}
	return a * b
}

func pressure(p proc.Pressure) model.Pressure {
	if !p.Known {
		return model.Pressure{SomeAvg10: math.NaN(), FullAvg10: math.NaN(), SomeUS: model.Null, FullUS: model.Null}
	}
	return model.Pressure{SomeAvg10: p.SomeAvg10, FullAvg10: p.FullAvg10, SomeUS: p.SomeUS, FullUS: p.FullUS}
}

// costs adds up the CPU time of each part until it is reported.
type costs struct {
	parts   []model.Overhead
	covered time.Duration
}

func (c *costs) measure(part string, work func()) {
	before := threadTime()
	work()
	c.add(part, threadTime()-before, 1)
}

func (c *costs) add(part string, took time.Duration, times int64) {
	for i := range c.parts {
		if c.parts[i].Part == part {
			c.parts[i].NS += int64(took)
			c.parts[i].Count += times
			return
		}
	}
	c.parts = append(c.parts, model.Overhead{Rank: -1, Part: part, NS: int64(took), Count: times, Gap: model.Null})
}

// Overheads returns what sampling cost since the last call, with one row for each part.
func (s *Sampler) Overheads(at time.Time) []model.Overhead {
	rows := make([]model.Overhead, 0, len(s.costs.parts))
	for _, o := range s.costs.parts {
		o.Time, o.CoveredNS = at.UnixMicro(), int64(s.costs.covered)
		rows = append(rows, o)
	}
	s.costs = costs{parts: s.costs.parts[:0]}
	return rows
}

// ThreadTime runs work and returns the CPU time that its thread took.
func ThreadTime(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	work()
	return threadTime() - before
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
