package fakesession

import (
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/fragment"
)

// The job: two ranks that train on a GPU each, and one worker of a DataLoader. Its processes have numbers above those
// that a kernel gives (4,194,304), so that none of them is there.
const (
	Launcher = 5_000_001
	Rank0    = 5_000_010
	Rank1    = 5_000_011
	Worker   = 5_000_020

	Steps = 300 // of each rank, one every two seconds

	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// Started is when the job began, and Now when it is asked, or ended.
var (
	Started = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	Now     = Started.Add(Steps * 2 * time.Second)
)

// site of the leak, and what holds it.
const (
	cwd    = "/data/resnet"
	script = cwd + "/train.py"
	site   = script + ":42"
	holder = "__main__.all_losses"
)

// live is the job's answers while it runs.
func live() *Session {
	return &Session{Job: about(), Ending: api.End{Live: true}, Members: members(true),
		Figures: api.Summary{Rows: 1304, Steps: Steps, PeakRSS: 3010 * mib, PIDs: []int{Rank0, Rank1, Worker},
			Ranks: []int{0, 1}, DiskBytes: 3 * mib},
		Verdict: "LEAK host heap of rank 0 +4 MiB/step since step 20", Story: story(), Judgement: judgement(),
		Forecast: prediction(), Held: held(), Counted: counted(), Stacks: stacks(), Heaps: heaps(),
		Printed: []Output{{Text: "all_losses holds 1,200 tensors\n"}, {Stderr: true,
			Text: "UserWarning: lr_scheduler.step() before optimizer.step()\n"}},
		Ran: func(p api.Process) api.EvalResult {
			return api.EvalResult{Process: p, Outcome: api.Fine, Value: "1200", Elapsed: 12 * time.Millisecond,
				Took: 52 * time.Millisecond, Began: true, Place: api.Main}
		},
		Recorded: func(p api.Process) api.Recording { return api.Recording{Process: p} }}
}

// finished is the same job, killed for lack of memory.
func finished() *Session {
	s := live()
	s.Job.Live, s.Members = false, members(false)
	s.Ending = api.End{Known: true, Text: "killed by SIGKILL", Ended: Now, OOM: model.OOMKill, Peak: 3010 * mib,
		Final: true}
	s.Judgement.Over = true
	for i := range s.Judgement.Findings {
		s.Judgement.Findings[i].Over = true
	}
	s.Held.Of = "session resnet, when it held most"
	return s
}

func about() api.About {
	return api.About{Version: api.Version, ID: "a1b2c3d4", Name: "resnet",
		Dir:     "/data/sessions/resnet-a1b2c3d4",
		Command: []string{"torchrun", "--nproc-per-node", "2", "train.py"}, Cwd: cwd, Host: "gpu7", Started: Started,
		Memgauge: "0.2.0", PID: Launcher, Live: true}
}

func members(alive bool) []api.Process {
	one := func(pid, rank int, argv string) api.Process {
		return api.Process{PID: pid, Start: uint64(pid), Rank: rank, Alive: alive, Torch: true, Agent: alive,
			Framework: true, Argv: argv}
	}
	return []api.Process{one(Rank0, 0, "python train.py"), one(Rank1, 1, "python train.py"),
		{PID: Worker, Start: Worker, Rank: -1, Alive: alive, Agent: alive, Framework: true, Argv: "python train.py"}}
}

func story() []api.Event {
	return []api.Event{
		{Time: Started.Add(3 * time.Second), PID: Rank0, Name: "start", Text: "python train.py"},
		{Time: Started.Add(100 * time.Second), PID: Rank0, Name: "mark", Text: "epoch 1"},
		{Time: Now.Add(-20 * time.Second), PID: Rank0, Name: "oom",
			Text: "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"}}
}

// judgement: the heap of rank 0 leaks, that of rank 1 does not, and of the worker too little was seen.
func judgement() detect.Report {
	leak := detect.Finding{Class: detect.RetainedTensors, Memory: detect.Heap, PID: Rank0, Rank: 0, Site: site,
		Growth: detect.Growth{Verdict: detect.Leak, Why: detect.Steady, Reason: "it grows steadily, to the end",
			Rate: float64(4 * mib), Low: 3.9 * float64(mib), High: 4.1 * float64(mib), Start: 20, End: Steps,
			Total: float64(1120 * mib), Level: float64(2200 * mib), Noise: float64(64 * kib), P: 0.00002, N: 300,
			Floors: 40},
		Holder: holder, Held: "list, 1,200 items, +4 per step", Last: Steps,
		Evidence: []string{"1,200 tensors of float32 [256, 256, 4] are held, 4 more with each step",
			"each keeps its graph alive"},
		Advice:  []string{"append loss.item() instead of loss", "clear all_losses at the end of an epoch"},
		Seconds: 600, SecondsLow: 580, SecondsHigh: 620, AtStep: 600, Limit: "cgroup 8 GiB",
		PerSec: float64(2 * mib)}
	sound := detect.Finding{Memory: detect.Heap, PID: Rank1, Rank: 1, Last: Steps,
		Growth: detect.Growth{Verdict: detect.Healthy, Why: detect.NoGrowth, Reason: "no growth beyond chance",
			End: Steps, Level: float64(1100 * mib), N: 300, Floors: 40, Unseen: float64(2 * kib)}}
	young := detect.Finding{Memory: detect.Worker, PID: Worker, Rank: -1, Worker: true, Last: 8,
		Growth: detect.Growth{Verdict: detect.Undecided, Why: detect.TooFewSteps, Reason: "too few steps", Rate: 4096,
			Start: 1, End: 8, Total: float64(32 * kib), N: 8, Needs: 42}}
	return detect.Report{Verdict: detect.Leak, Class: detect.RetainedTensors, Confidence: 0.98, Steps: Steps,
		Findings: []detect.Finding{leak, sound, young},
		Warnings: []string{"ranks disagree: host heap leaks on rank 0, not on rank 1: look at what only that rank " +
			"does"}}
}

func prediction() *monitor.Report {
	name, began := "resnet", stamp(Started)
	confidence := 0.93
	num := func(f float64) *monitor.Number { n := monitor.Number(f); return &n }
	risk := &monitor.RiskReport{Level: monitor.High, Worst: monitor.High, Confidence: 0.93, Usage: 71.5, Growth: 2,
		GrowthLow: 1.9, GrowthHigh: 2.1, Seconds: num(600), SecondsLow: num(580), SecondsHigh: num(620),
		Steps: num(300),
		Shape: "linear", Reason: "it grows by 2 MiB/s", Limit: 8 * gib, LimitKind: "cgroup",
		Advice:     "memgauge leak names what holds the memory",
		AdviceList: []string{"memgauge leak names what holds the memory"}}
	return &monitor.Report{SchemaVersion: monitor.SchemaVersion, Tool: "oom", Timestamp: stamp(Now), Started: &began,
		Duration: 600, Interval: 1, Session: &name, Verdict: "at risk", Confidence: &confidence,
		ConfidenceInterval: &[2]monitor.Number{580, 620},
		Evidence:           []string{"host: 5.7 GiB of 8 GiB (71.5 %), peak 5.7 GiB; it grows by 2 MiB/s"},
		Devices: map[string]*monitor.DeviceReport{"host": {Name: "host", LimitKind: "cgroup",
			CurrentUsage: monitor.Usage{Allocated: 5860 * mib, Free: 2332 * mib, Total: 8 * gib, Utilization: 71.5},
			PeakMemory:   5860 * mib, Risk: risk}},
		Events: []monitor.EventReport{}, Recommendations: risk.AdviceList}
}

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000000Z07:00") }

func ptr[T any](v T) *T { return &v }

// classes are a process's bytes, in MiB.
func classes(inUse, free, anon, file, shared int64) picture.Classes {
	return picture.Classes{HeapInUse: ptr(inUse * mib), HeapFree: ptr(free * mib), Anonymous: ptr(anon * mib),
		Stacks: ptr(2 * mib), File: ptr(file * mib), Shared: ptr(shared * mib), Pinned: ptr(int64(0)),
		PageTables: ptr(6 * mib), Swap: ptr(int64(0))}
}

func held() api.Where {
	one := func(pid int, role string, rank *int, c picture.Classes) picture.Process {
		pss := *c.HeapInUse + *c.HeapFree + *c.Anonymous + *c.Stacks + *c.File + *c.Shared
		return picture.Process{PID: pid, Role: role, Command: "python train.py", Rank: rank, RSS: pss + 90*mib,
			PSS:     &pss,
			Classes: c}
	}
	list := []picture.Process{one(Rank0, "trainer", ptr(0), classes(2200, 120, 400, 180, 64)),
		one(Rank1, "trainer", ptr(1), classes(1100, 80, 400, 180, 64)),
		one(Worker, "worker", nil, classes(300, 40, 120, 60, 128))}
	list[2].Classes.HeapInUse, list[2].Note = nil, "its heap is not known: it runs without an agent"
	all := classes(3600, 240, 920, 420, 256)
	all.Kernel = ptr(40 * mib)
	all.PageTables = ptr(18 * mib)
	charged, named := 5560*mib, 5500*mib
	gpu := func(id int) picture.Device {
		return picture.Device{Name: "NVIDIA H100", Total: ptr(80 * gib), Used: ptr(21 * gib), Live: ptr(16 * gib),
			Cached: ptr(3 * gib), Context: ptr(512 * mib), Outside: ptr(512 * mib), Others: ptr(int64(id) * gib),
			Driver: ptr(gib - int64(id)*gib)}
	}
	return api.Where{Of: "session resnet, now", Picture: picture.Picture{
		Host: picture.Host{Charged: &charged, Named: &named, Unexplained: ptr(charged - named), Limit: ptr(8 * gib),
			LimitKind: "cgroup", NamedShare: ptr(float64(named) / float64(charged)), Cgroup: "/job",
			Kernel: &picture.Kernel{Anonymous: 4760 * mib, Processes: 4764 * mib}, Classes: all},
		Processes: list, Devices: map[string]picture.Device{"0": gpu(0), "1": gpu(1)}}}
}

// counted: the worker's census fails, that of rank 1 is not whole.
func counted() api.CensusReply {
	one := api.Census{PID: Rank0, Rank: 0, ID: 2, Step: Steps, Visited: 81_204, Tensors: 1_462,
		CPU: 41 * time.Millisecond, Longest: 3 * time.Millisecond, Wall: 160 * time.Millisecond, Complete: true}
	other := one
	other.PID, other.Rank, other.Complete = Rank1, 1, false
	other.Note = "objects of extensions were left out: the census reached its limit of 50 ms"
	return api.CensusReply{Censuses: []api.Census{one, other, {PID: Worker, Rank: -1,
		Error: api.Pack(remedy.Add(fmt.Errorf("process %d does not answer", Worker),
			"memgauge backtrace --all says what it is doing"))}}}
}

func stacks() []api.Stacks {
	train := func(pid, rank int) api.Stacks {
		return api.Stacks{PID: pid, Rank: rank, Argv: "python train.py", Threads: []api.Thread{
			{TID: pid, Name: "MainThread", Python: true, Comm: "python", State: "S", Wchan: "futex_do_wait",
				Syscall: "futex", Kernel: "sleeps in futex", Frames: []api.Frame{
					{Func: "train_step", File: script, Line: 42, Locals: []api.Local{{Name: "loss",
						Value: "tensor of float32 []"}, {Name: "step", Value: "300"}}},
					{Func: "main", File: script, Line: 61}, {Func: "<module>", File: script, Line: 66}}},
			{TID: pid + 100, Comm: "cuda-EvtHandlr", State: "S", Wchan: "poll_schedule_timeout", Syscall: "poll",
				Kernel: "waits in poll"}}}
	}
	return []api.Stacks{train(Rank0, 0), train(Rank1, 1), {PID: Worker, Rank: -1, Argv: "python train.py",
		Threads: []api.Thread{{TID: Worker, Comm: "pt_data_worker", State: "D", Kernel: "waits for a disk"}},
		Error: api.Pack(remedy.Add(fmt.Errorf("the lock of Python could not be had within 2s"),
			"--timeout 10s waits longer"))}}
}

// heaps: a third of rank 0's segments are holes.
func heaps() map[string]api.BlocksReply {
	host := fragment.State{Source: "malloc_info", Held: 2400 * mib, InUse: 2200 * mib, Spare: 80 * mib,
		Reclaimable: 140 * mib, Pieces: 5, Holes: fragment.Holes{Count: 4_120, Bytes: 120 * mib, Largest: 8 * mib,
			Sizes: []fragment.Class{{From: 32 * kib, To: 64 * kib, Count: 4_000, Bytes: 88 * mib},
				{From: 4 * mib, To: 8 * mib, Count: 120, Bytes: 32 * mib}}}}
	gpu := fragment.State{Source: "torch", Held: 18 * gib, InUse: 11 * gib, Spare: gib, Reclaimable: 7 * gib,
		Pieces:         90,
		LargestRequest: 2 * gib, Holes: fragment.Holes{Count: 300, Bytes: 6 * gib, Largest: 512 * mib,
			Sizes: []fragment.Class{{From: 16 * mib, To: 32 * mib, Count: 200, Bytes: 4 * gib},
				{From: 256 * mib, To: 512 * mib, Count: 100, Bytes: 2 * gib}}}}
	of := func(s fragment.State, pid, rank int) api.BlocksReply {
		return api.BlocksReply{Allocators: []api.Allocator{{PID: pid, Rank: rank, State: s,
			Env: map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"}}}}
	}
	return map[string]api.BlocksReply{"host": of(host, Rank0, 0), "0": of(gpu, Rank0, 0),
		"1": {Why: "no process answered"}}
}
