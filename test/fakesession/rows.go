package fakesession

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/analyse"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Live returns the job while it runs, with a database of its rows that is closed with the test.
func Live(t testing.TB) *Session { return with(t, live()) }

// Finished returns the job when it is over: killed for lack of memory.
func Finished(t testing.TB) *Session { return with(t, finished()) }

func with(t testing.TB, s *Session) *Session {
	t.Helper()
	s.Rows = Stored(t, Rows())
	return s
}

// Stored returns a real database with these rows, which is closed with the test.
func Stored(t testing.TB, b *model.Batch) Tables {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "session.duckdb"), Threads: 1,
		TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return &service.Service{Open: service.Opened(db)}
}

const second = int64(time.Second / time.Microsecond)

// Rows are the job's: some two thousand.
func Rows() *model.Batch {
	b := &model.Batch{Names: []model.Name{{ID: 1, Text: "ResNet"}, {ID: 2, Text: "ResNet.layer1"}}}
	for i, pid := range []int32{Rank0, Rank1} {
		trainer(b, pid, int32(i))
	}
	start := Started.UnixMicro()
	b.Processes = append(b.Processes, model.Process{PID: Worker, StartTicks: Worker, PPID: Rank0, Parent: Rank0,
		Rank:      -1,
		LocalRank: -1, World: -1, Started: start + 4*second, Ended: model.Null, Argv: "python train.py", Cwd: cwd,
		Executable: "/usr/bin/python3", Python: "3.12.4", Agent: "0123abcd"})
	happened(b)
	outside(b)
	found(b)
	censuses(b)
	native(b)
	return b
}

// trainer is what the agent in a rank tells: its heap grows by 4 MiB a step in rank 0.
func trainer(b *model.Batch, pid, rank int32) {
	start := Started.UnixMicro()
	b.Processes = append(b.Processes, model.Process{PID: pid, StartTicks: int64(pid), PPID: Launcher, Rank: rank,
		LocalRank: rank, World: 2, Started: start + second, Ended: model.Null, Argv: "python train.py", Cwd: cwd,
		Executable: "/usr/bin/python3", Python: "3.12.4", Agent: "0123abcd"})
	for step := int64(1); step <= Steps; step++ {
		at, heap := start+2*second*step, 1000*mib
		if rank == 0 {
			heap += 4 * mib * step
		}
		wave := mib * (step % 3)
		b.Steps = append(b.Steps, model.Step{Time: at, PID: pid, Rank: rank, World: 2, Step: step, Steps: 1,
			DurationNS: 2_000_000_000, Sampled: step%10 == 0, Device: int8(rank), Allocated: 16*gib + wave,
			MaxAllocated: 17 * gib, Reserved: 19 * gib, MaxReserved: 19 * gib, RSS: heap + 700*mib + wave,
			Anon: heap + 500*mib + wave, MaxRSS: heap + 710*mib + wave, HeapInUse: heap + wave,
			HeapHeld: heap + 120*mib,
			PyBlocks: 400_000, GCCollections: step, GCFull: 0, AgentNS: 400_000})
		b.Devices = append(b.Devices, model.StepDevice{Time: at, PID: pid, Rank: rank, Step: step, Steps: 1,
			Device: int8(rank), Allocated: 16*gib + wave, MaxAllocated: 17 * gib, Reserved: 19 * gib,
			MaxReserved: 19 * gib})
	}
	for seq := range int64(4) { // the stages of one step
		b.Trace = append(b.Trace, model.Trace{Time: start + 20*second, PID: pid, Rank: rank, World: 2, Step: 10,
			Seq: int32(seq), Module: int32(seq%2) + 1, Stage: model.Stage(seq/2 + 1), Device: int8(rank),
			Allocated: 16 * gib, MaxAllocated: 17 * gib, Cached: 19 * gib, MaxCached: 19 * gib,
			AllocatedDelta:    seq * mib,
			MaxAllocatedDelta: seq * mib, OffsetNS: seq * 1_000_000, DurationNS: 900_000})
	}
	b.Overheads = append(b.Overheads, model.Overhead{Time: Now.UnixMicro(), PID: pid, Rank: rank, Part: "steps",
		NS: 120_000_000, Count: Steps, Steps: Steps, CoveredNS: 600_000_000_000, Gap: 10})
}

func happened(b *model.Batch) {
	for _, e := range story() {
		b.Events = append(b.Events, model.Event{Time: e.Time.UnixMicro(), PID: int32(e.PID), Rank: 0, Name: e.Name,
			Text: e.Text, A: model.Null, B: model.Null})
	}
	oom := &b.Events[len(b.Events)-1]
	oom.A, oom.B = 2*gib, 0
	b.Drops = append(b.Drops, model.Drop{Time: Now.UnixMicro(), PID: Rank1, Source: "python.steps", Reason: "thinned",
		Records: 40, Detail: "steps 1 to 40"})
}

// outside is what the samplers read, every ten seconds: the cgroup meets its limit of 8 GiB some time.
func outside(b *model.Batch) {
	start := Started.UnixMicro()
	tree := func(pid, ppid, rank int32, role, comm, command string, peak int64) model.TreeProcess {
		return model.TreeProcess{PID: pid, StartTicks: int64(pid), PPID: ppid, Rank: rank, Role: role, Comm: comm,
			Command: command, Cgroup: "/job", NSPID: pid, Started: start, FirstSeen: start, LastSeen: Now.UnixMicro(),
			PeakRSS: peak}
	}
	s := &b.Samples
	s.Tree = []model.TreeProcess{
		tree(Launcher, 1, -1, "launcher", "torchrun", "torchrun --nproc-per-node 2 train.py", 200*mib),
		tree(Rank0, Launcher, 0, "trainer", "python", "python train.py", 3010*mib),
		tree(Rank1, Launcher, 1, "trainer", "python", "python train.py", 1790*mib),
		tree(Worker, Rank0, -1, "worker", "pt_data_worker", "python train.py", 700*mib)}
	s.Envs = []model.Env{{Time: start, PID: Rank0, Name: "PYTORCH_CUDA_ALLOC_CONF", Value: "max_split_size_mb:128"},
		{Time: start, PID: Rank0, Name: "OMP_NUM_THREADS", Value: "4"}}
	for d := range int32(2) {
		s.Devices = append(s.Devices, model.GPUDevice{Time: start, Device: d, UUID: []string{"GPU-0a", "GPU-1b"}[d],
			Name: "NVIDIA H100", Vendor: "nvidia", Driver: "570.86", BusID: "0000:01:00.0", Total: 80 * gib, Parent: -1,
			CUDAVisible: d, State: "ok"})
	}
	for i := int64(1); i <= Steps/5; i++ {
		reading(s, start+10*i*second, 20*mib*i)
	}
}

// reading is one moment; grown is what rank 0 has leaked by then.
func reading(s *model.Samples, at, grown int64) {
	for i, pid := range []int32{Rank0, Rank1, Worker} {
		heap := []int64{1000*mib + grown, 1000 * mib, 300 * mib}[i]
		m := model.ProcessMemory{Time: at, PID: pid, StartTicks: int64(pid), Rank: []int32{0, 1, -1}[i],
			RSS: heap + 700*mib, Anon: heap + 500*mib, File: 180 * mib, Shmem: 20 * mib, HWM: heap + 710*mib,
			PageTables: 6 * mib, VMSize: 40 * gib, PSS: heap + 650*mib, PSSAnon: heap + 480*mib, PSSFile: 150 * mib,
			PSSShmem: 20 * mib, PrivateDirty: heap, PrivateClean: mib, HeapInUse: heap, HeapHeld: heap + 120*mib,
			Threads: 12, MinorFaults: 1_000, UserNS: at % 1_000_000, ReadBytes: 4096}
		if pid == Worker {
			m.HeapInUse, m.HeapHeld = model.Null, model.Null
		}
		s.Memory = append(s.Memory, m)
	}
	used := 5600*mib + grown
	s.Cgroups = append(s.Cgroups, model.CgroupMemory{Time: at, Path: "/job", Version: 2, Current: used, Limit: 8 * gib,
		LimitPath: "/job", High: model.Null, Max: 8 * gib, Peak: used, Anon: used - 600*mib, File: 420 * mib,
		Shmem: 60 * mib, Kernel: 40 * mib, KernelStack: 2 * mib, PageTables: 18 * mib})
	s.Hosts = append(s.Hosts, model.HostMemory{Time: at, Total: 64 * gib, Available: 40*gib - grown,
		Free:    30*gib - grown,
		Buffers: gib, Cached: 8 * gib, Anon: 20*gib + grown, Shmem: 60 * mib, SwapTotal: 0, SwapFree: 0,
		ShmTotal: 32 * gib, ShmUsed: 60 * mib})
	for d := range int32(2) {
		s.GPUs = append(s.GPUs, model.GPUUtilization{Time: at, Device: d, Name: "NVIDIA H100", Used: 21 * gib,
			Free: 59 * gib, Total: 80 * gib, Reserved: gib / 2, GPUPct: 87, MemPct: 40, Temperature: 61,
			PowerMW: 400_000, PowerLimitMW: 700_000, SMClockMHz: 1980, MemClockMHz: 2619, State: "ok"})
		s.GPUProcs = append(s.GPUProcs, model.GPUProcess{Time: at, Device: d, PID: Rank0 + d, Kind: "compute",
			Used: 20 * gib, InJob: true, Comm: "python"})
	}
}

func found(b *model.Batch) {
	b.Findings = analyse.Rows(judgement(), 1, Now)
}

// censuses: two of rank 0, between which the held losses have doubled.
func censuses(b *model.Batch) {
	for census := int64(1); census <= 2; census++ {
		step := Steps / 2 * census
		at, count := Started.UnixMicro()+2*second*step, 4*step
		b.Events = append(b.Events, model.Event{Time: at, PID: Rank0, Rank: 0, Name: "census", A: census, B: step})
		delta, fresh := count/2, count/2
		if census == 1 {
			delta, fresh = model.Null, model.Null
		}
		group := func(role, where, made, shape string, n, bytes, fresh, oldest int64) model.TensorGroup {
			return model.TensorGroup{Time: at, PID: Rank0, Rank: 0, Census: census, Step: step, Shape: shape,
				Dtype: "float32", Device: "cpu", Role: role, Count: n, Bytes: bytes, Fresh: fresh, OldestStep: oldest,
				Site: made, Holder: where}
		}
		b.Tensors = append(b.Tensors, group("tensor", holder+"[*]", site, "[256, 256, 4]", count, count*mib, fresh, 1),
			group("parameter", "model.fc.weight", script+":12", "[1000, 2048]", 1, 8*mib, 0, 1))
		b.Objects = append(b.Objects, model.ObjectGroup{Time: at, PID: Rank0, Rank: 0, Census: census, Step: step,
			Evidence: "container", Type: "builtins.list", Count: 1, Delta: delta, Length: count, Bytes: count * mib,
			Holder: holder, Site: site, Detail: "of tensors"},
			model.ObjectGroup{Time: at, PID: Rank0, Rank: 0, Census: census, Step: step, Evidence: "count",
				Type: "all", Count: 81_204, Delta: model.Null, Length: model.Null, Bytes: model.Null})
	}
}

// native is what a C library in rank 0 holds: more from minute to minute.
func native(b *model.Batch) {
	for minute := int64(1); minute <= 10; minute++ {
		for stack, held := range []int64{40 * mib * minute, 200 * mib} {
			b.NativeLive = append(b.NativeLive, model.NativeLive{Time: Started.UnixMicro() + 60*minute*second,
				PID:  Rank0,
				Rank: 0, Stack: int64(stack) + 1, Bytes: held, Low: held - 4*mib, High: held + 4*mib, Count: held / mib,
				Samples: 64, Interval: 512 * kib, Site: []string{script + ":30", script + ":12"}[stack],
				Called: []string{"libjpeg.so.62", "libtorch_cpu.so"}[stack]})
		}
	}
	for stack, frames := range [][]model.NativeFrame{
		{{Kind: "c", Func: "malloc", File: "libc.so.6"}, {Kind: "c", Func: "jpeg_decode", File: "libjpeg.so.62"},
			{Kind: "python", Func: "load", File: script, Line: 30}},
		{{Kind: "c", Func: "at::empty", File: "libtorch_cpu.so"},
			{Kind: "python", Func: "build", File: script, Line: 12}}} {
		for depth, f := range frames {
			f.Stack, f.Depth = int64(stack)+1, int32(depth)
			b.NativeStacks = append(b.NativeStacks, f)
		}
	}
}
