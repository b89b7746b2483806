package model

// ProcessMemory is a row of process.memory: one process of the tree at one time.
type ProcessMemory struct {
	Time       int64
	PID        int32
	StartTicks int64
	Rank       int32 // -1 unknown
	RSS        int64 // Anon + File + Shmem
	Anon       int64
	File       int64
	Shmem      int64 // resident pages of tmpfs, memfd, SysV and shared anonymous maps
	Swap       int64 // anonymous only
	HWM        int64 // highest RSS so far
	PageTables int64
	Locked     int64 // mlock
	Pinned     int64 // pinned for devices (RDMA, VFIO, io_uring)
	VMSize     int64 // address space
	// Of smaps_rollup, which is read seldom: Null in between.
	PSS          int64
	PSSAnon      int64
	PSSFile      int64
	PSSShmem     int64
	PrivateDirty int64
	PrivateClean int64
	SwapPSS      int64
	// From the agent, as of the last reading before: Null where there is none.
	HeapInUse int64
	HeapHeld  int64

	Threads                 int32
	MinorFaults             int64 // since the process started
	MajorFaults             int64
	UserNS, SystemNS        int64 // CPU time since the process started
	ReadBytes, WrittenBytes int64 // to and from storage, since the process started
}

// ProcessClasses is a row of process.classes: what a process's maps are for, read seldom. The classes add up to its
// PSS.
type ProcessClasses struct {
	Time       int64
	PID        int32
	StartTicks int64
	Rank       int32 // -1 unknown
	PSS        int64
	HeapInUse  int64 // malloc's: Null where no agent told of it
	HeapFree   int64
	Python     int64 // arenas of Python's allocator: Null before CPython 3.15, which names them
	Anonymous  int64 // other anonymous maps
	Stacks     int64
	File       int64
	Shared     int64
	Pinned     int64
}

// Utilization is a row of cpu.utilization: a process or one of its threads, over the time since the row before.
type Utilization struct {
	Time            int64
	PID             int32
	Rank            int32
	TID             int32 // 0 for a whole process
	Comm            string
	UserPct, SysPct float64 // of one core, since the row before; NaN on the first row
	RSS             int64   // bytes; Null for threads
	Threads         int32   // 0 for threads
	State           string  // R, S, D …
	Wchan           string  // kernel function that it sleeps in; "" if it doesn't, or may not be known
}

// TreeProcess is a row of process.tree: a process of the job, Python or not.
type TreeProcess struct {
	PID        int32
	StartTicks int64
	PPID       int32
	Rank       int32
	Role       string // trainer, worker, launcher, helper, other
	Comm       string
	Command    string
	Cgroup     string
	NSPID      int32 // its own number in its innermost PID namespace
	Started    int64
	FirstSeen  int64
	LastSeen   int64
	Ended      bool
	PeakRSS    int64 // highest VmHWM seen
}

// Env is a row of process.envs.
type Env struct {
	Time        int64
	PID         int32
	Name, Value string // secrets are redacted
}

// CgroupMemory is a row of cgroup.memory: the cgroup that the job's processes are charged to.
type CgroupMemory struct {
	Time      int64
	Path      string // below the mount of the hierarchy
	Version   int32  // 1, 2
	Current   int64
	Limit     int64 // the lowest max up the tree, not above the host's memory; Null when none binds
	LimitPath string
	High      int64 // the lowest memory.high up the tree (v1: none)
	Max       int64 // of the cgroup itself; Null for "max"
	Peak      int64
	SwapUsed  int64
	SwapMax   int64

	Anon, File, Shmem, Kernel, KernelStack, PageTables, Slab, SlabReclaimable, Sock int64
	InactiveAnon, ActiveAnon, InactiveFile, ActiveFile, Unevictable                 int64
	FileMapped, FileDirty, FileWriteback                                            int64
	Faults, MajorFaults, RefaultFile, RefaultAnon                                   int64

	EventsLow, EventsHigh, EventsMax, EventsOOM, EventsOOMKill int64 // counts since the cgroup was made
	Pressure
}

// Pressure is what PSI says of memory: shares of the last 10 s in percent, and the totals.
type Pressure struct {
	SomeAvg10, FullAvg10 float64 // NaN where the kernel has no PSI
	SomeUS, FullUS       int64
}

// HostMemory is a row of host.memory.
type HostMemory struct {
	Time                                               int64
	Total, Available, Free, Buffers, Cached            int64
	Anon, Mapped, Shmem, Slab, SlabReclaimable         int64
	KernelStack, PageTables, Dirty, Writeback, Mlocked int64
	SwapTotal, SwapFree                                int64
	Committed, CommitLimit                             int64
	HugeTotal, HugeFree                                int64 // bytes reserved as hugetlb pages
	ShmTotal, ShmUsed                                  int64 // the file system /dev/shm
	OOMKills                                           int64 // on this host since boot
	Pressure
}

// GPUDevice is a row of gpu.devices.
type GPUDevice struct {
	Time        int64 // first seen
	Device      int32 // number by the driver's own order (PCI bus)
	UUID        string
	Name        string
	Vendor      string // nvidia, amd, intel
	Driver      string
	BusID       string
	Total       int64
	Parent      int32 // device that a MIG instance is a part of; -1 for a whole device
	Unified     bool  // shares the host's memory
	CUDAVisible int32 // number in the job by CUDA_VISIBLE_DEVICES; -1: hidden from it
	State       string
}

// GPUUtilization is a row of gpu.utilization.
type GPUUtilization struct {
	Time                         int64
	Device                       int32
	Name                         string
	Used, Free, Total, Reserved  int64
	GPUPct, MemPct               int64 // Null where the driver does not tell
	Temperature                  int64 // °C
	PowerMW, PowerLimitMW        int64
	SMClockMHz, MemClockMHz      int64
	Throttle                     string // reasons, "" for none
	ECCCorrected, ECCUncorrected int64  // since the driver was loaded
	PCIeRxBytes, PCIeTxBytes     int64  // per second
	PCIeGeneration, PCIeWidth    int64
	State                        string // "ok", or why there are no figures
}

// GPUProcess is a row of gpu.processes.
type GPUProcess struct {
	Time   int64
	Device int32
	PID    int32 // as the driver says it: of the host
	Kind   string
	Used   int64 // Null where the driver does not tell (WDDM, MIG without rights)
	InJob  bool
	Comm   string
}

// GPUEvent is a row of gpu.events.
type GPUEvent struct {
	Time   int64
	Device int32
	Kind   string // xid, ecc, lost, found, mig …
	Code   int64
	Text   string
}

// WindowSample is a row of memgauge.window: the time just before an OOM event at full resolution.
type WindowSample struct {
	Time  int64
	Event int64 // time of the memgauge.events row that it belongs to
	Scope string
	PID   int32 // 0 for a cgroup or the host
	Name  string
	Bytes int64
}
