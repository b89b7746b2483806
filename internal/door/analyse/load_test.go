package analyse

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
)

const (
	begin = int64(1.7e15) // µs since the epoch
	kib   = int64(1) << 10
	mib   = int64(1) << 20
	gib   = int64(1) << 30
)

// judged is what is said of rows in a real database.
func judged(t *testing.T, o Options, batches ...*model.Batch) detect.Report {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(t.TempDir(), "session.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, b := range batches {
		if err := db.Append(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Judge(context.Background(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func finding(t *testing.T, r detect.Report, memory detect.Kind, device string) detect.Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Memory == memory && f.Device == device {
			return f
		}
	}
	t.Fatalf("nothing of %s %s in %+v", device, memory, r.Findings)
	return detect.Finding{}
}

// jitter is what readings differ by, without chance.
func jitter(i int) int64 { return int64(i*7919%1000) * 30 }

// stepTime is the end of a step of 50 ms.
func stepTime(i int) int64 { return begin + int64(i)*50_000 }

// cudaRun is a training on CUDA with every step gauged: heap grows by rate bytes a step, device 0 holds 10 GiB, device
// 1 holds little and grows by rate1.
func cudaRun(n int, rate, rate1 int64) *model.Batch {
	b := &model.Batch{}
	for i := 1; i <= n; i++ {
		heap := 600*mib + rate*int64(i) + jitter(i)
		b.Steps = append(b.Steps, model.Step{Time: stepTime(i), PID: 7, Rank: -1, World: -1, Step: int64(i), Steps: 1,
			DurationNS: 50e6, Device: 0, Allocated: 10 * gib, MaxAllocated: 11 * gib, Reserved: 12 * gib,
			MaxReserved: 12 * gib, RSS: heap + 900*mib, Anon: heap + 300*mib, MaxRSS: model.Null, HeapInUse: heap,
			HeapHeld: heap + 200*mib, PyBlocks: 1e6, GCCollections: 1, GCFull: 0})
		b.Devices = append(b.Devices,
			model.StepDevice{Time: stepTime(i), PID: 7, Rank: -1, Step: int64(i), Steps: 1, Device: 0,
				Allocated: 10*gib + jitter(i), MaxAllocated: 11 * gib, Reserved: 12 * gib, MaxReserved: 12 * gib},
			model.StepDevice{Time: stepTime(i), PID: 7, Rank: -1, Step: int64(i), Steps: 1, Device: 1,
				Allocated: gib + rate1*int64(i) + jitter(i), MaxAllocated: 2*gib + rate1*int64(i), Reserved: 4 * gib,
				MaxReserved: 4 * gib})
	}
	return b
}

// TestHostLeakBesideDevices: a training on CUDA does not hide its host's leak, however often its devices are gauged.
func TestHostLeakBesideDevices(t *testing.T) {
	r := judged(t, Options{}, cudaRun(600, 256*kib, 0))
	f := finding(t, r, detect.Heap, "")
	if r.Verdict != detect.Leak || math.Abs(f.Rate/float64(256*kib)-1) > 0.02 {
		t.Errorf("%s: %v", r.Verdict, f.Growth)
	}
	for _, device := range []string{"cuda:0", "cuda:1"} {
		if f := finding(t, r, detect.Device, device); f.Verdict != detect.Healthy || f.N < 500 {
			t.Errorf("%s: %v of %d readings", device, f.Growth, f.N)
		}
	}
}

// TestSmallerDeviceLeaks: a device that holds less than another one is judged too.
func TestSmallerDeviceLeaks(t *testing.T) {
	r := judged(t, Options{}, cudaRun(600, 0, mib))
	f := finding(t, r, detect.Device, "cuda:1")
	if r.Verdict != detect.Leak || math.Abs(f.Rate/float64(mib)-1) > 0.02 {
		t.Errorf("%s: %v", r.Verdict, f.Growth)
	}
	if f := finding(t, r, detect.Heap, ""); f.Verdict != detect.Healthy {
		t.Errorf("the host: %v", f.Growth)
	}
}

// gpus are what a driver says of device 0 each quarter of a second: the process's use grows beyond its allocator's by
// rate bytes a step. told: the driver tells it by process.
func gpus(n int, rate int64, told bool) *model.Batch {
	b := &model.Batch{Samples: model.Samples{Devices: []model.GPUDevice{{Time: begin, Device: 3, UUID: "GPU-3",
		Name: "GPU", Total: 80 * gib, Parent: -1, CUDAVisible: 0, State: "ok"}}}}
	for i := 5; i <= n; i += 5 {
		used := 12*gib + 500*mib + rate*int64(i) + jitter(i)
		b.Samples.GPUs = append(b.Samples.GPUs, model.GPUUtilization{Time: stepTime(i) + 1000, Device: 3, Name: "GPU",
			Used: used, Free: 80*gib - used, Total: 80 * gib, State: "ok"})
		if told {
			b.Samples.GPUProcs = append(b.Samples.GPUProcs, model.GPUProcess{Time: stepTime(i) + 1000, Device: 3,
				PID: 7, Kind: "compute", Used: used, InJob: true})
		}
	}
	return b
}

// twoCensuses saw tensors on cuda:0 grow by 1 MiB a step. They lie in the allocator's memory, so they hold none outside
// of it.
func twoCensuses() *model.Batch {
	b := &model.Batch{}
	for i, step := range []int{100, 550} {
		b.Tensors = append(b.Tensors, model.TensorGroup{Time: stepTime(step), PID: 7, Rank: -1, Census: int64(i + 1),
			Step: int64(step), Shape: "(262144,)", Dtype: "float32", Device: "cuda:0", Role: "parameter",
			Count: int64(step), Bytes: int64(step) * mib, OldestStep: 1, Holder: "main().model"})
	}
	return b
}

// TestOutsideTheAllocator: what a library takes on a device beyond PyTorch's allocator is fed and judged, also where
// the driver tells of the device as a whole only.
func TestOutsideTheAllocator(t *testing.T) {
	for name, told := range map[string]bool{"by process": true, "by device": false} {
		r := judged(t, Options{}, cudaRun(600, 0, 0), gpus(600, mib, told), twoCensuses())
		f := finding(t, r, detect.Outside, "cuda:0")
		if f.Verdict != detect.Leak || f.Class != detect.OutsideAllocator || math.Abs(f.Rate/float64(mib)-1) > 0.05 ||
			f.Holder != "" {
			t.Errorf("%s: %s %v, held by %q", name, f.Class, f.Growth, f.Holder)
		}
		// 80 GiB less what is used at the end, of which the allocator's 2 GiB that are not handed out don't count; 20
		// MiB a second.
		if left := float64(80*gib-(12*gib+500*mib+600*mib)+2*gib) / float64(20*mib); math.Abs(f.Seconds/left-1) > 0.1 ||
			!strings.HasPrefix(f.Limit, "device 80") {
			t.Errorf("%s: %s in %.0f s, want %.0f", name, f.Limit, f.Seconds, left)
		}
	}
	if r := judged(t, Options{}, cudaRun(600, 0, 0), gpus(600, 0, true)); r.Verdict != detect.Healthy {
		t.Errorf("nothing grows: %s, %+v", r.Verdict, r.Findings)
	}
}

// TestDeviceCache: reserved memory beyond what is handed out grows, and that is no leak of the program; the class says
// whether the peak of steps creeps up, or the allocator's holes.
func TestDeviceCache(t *testing.T) {
	for _, peak := range []int64{0, mib} {
		b := cudaRun(600, 0, 0)
		for i := range b.Devices {
			if d := &b.Devices[i]; d.Device == 0 {
				d.Reserved, d.MaxAllocated = d.Reserved+mib*d.Step, d.MaxAllocated+peak*d.Step
			}
		}
		memory, class := detect.Reserved, detect.AllocatorRetention
		if peak > 0 {
			memory, class = detect.Cache, detect.DeviceCache
		}
		if f := finding(t, judged(t, Options{}, b), memory, "cuda:0"); f.Verdict != detect.Undecided ||
			f.Class != class || math.Abs(f.Rate/float64(mib)-1) > 0.02 {
			t.Errorf("peak +%d: %s %s %v", peak, f.Verdict, f.Class, f.Growth)
		}
	}
}

// limited are a cgroup's and its host's readings at 10 Hz around a training's steps: charged at its end is what the
// heap and 900 MiB beside it take, of which 400 MiB are clean page cache; after the end it is given back.
func limited(n int, limit, rate int64, after int) *model.Batch {
	b := &model.Batch{}
	defer func() {
		for _, c := range b.Samples.Cgroups {
			b.Samples.Hosts = append(b.Samples.Hosts,
				model.HostMemory{Time: c.Time, Total: 64 * gib, Available: 50 * gib})
		}
	}()
	for i := 2; i <= n; i += 2 {
		b.Samples.Cgroups = append(b.Samples.Cgroups, model.CgroupMemory{Time: stepTime(i) - 20_000, Path: "/job",
			Version: 2, Current: 1500*mib + rate*int64(i), Limit: limit, LimitPath: "/job", InactiveFile: 300 * mib,
			ActiveFile: 100 * mib})
	}
	for i := range after {
		b.Samples.Cgroups = append(b.Samples.Cgroups, model.CgroupMemory{Time: stepTime(n) + int64(i+1)*100_000,
			Path: "/job", Version: 2, Current: 30 * mib, Limit: limit, LimitPath: "/job"})
	}
	return b
}

func tree(role string, ended bool, last int64) *model.Batch {
	return &model.Batch{Samples: model.Samples{Tree: []model.TreeProcess{{PID: 7, StartTicks: 1, Role: role,
		Command: "python x.py", FirstSeen: begin, LastSeen: last, Ended: ended}}}}
}

// TestJudgedAsOfTheEnd: after the run the forecast is that of its last step, from what was charged and could not be
// taken back then.
func TestJudgedAsOfTheEnd(t *testing.T) {
	const n, rate, limit = 600, 512 * int64(1<<10), 4 * int64(1<<30)
	left := float64(limit-(1500-400)*mib)/float64(rate) - n // steps
	for name, after := range map[string]int{"just ended": 0, "given back": 50} {
		end := &model.Batch{Events: []model.Event{{Time: stepTime(n) + 6e6, PID: 7, Rank: -1, Name: "end",
			A: model.Null, B: model.Null}}}
		f := finding(t, judged(t, Options{}, cudaRun(n, rate, 0), limited(n, limit, rate, after),
			tree("trainer", true, stepTime(n)), end), detect.Heap, "")
		if !f.Over || f.Met || f.Limit != "cgroup 4 GiB" || math.Abs(f.Seconds/(left*0.05)-1) > 0.03 ||
			math.Abs(f.AtStep/(left+n)-1) > 0.03 {
			t.Errorf("%s: %s in %.1f s at step %.0f, want %.1f s, step %.0f (over %t, met %t)", name, f.Limit,
				f.Seconds, f.AtStep, left*0.05, left+n, f.Over, f.Met)
		}
	}
	kill := &model.Batch{Events: []model.Event{{Time: stepTime(n) + 30_000, PID: 7, Rank: -1, Name: "oom_kill",
		A: model.Null, B: limit},
		{Time: stepTime(n) + 6e6, PID: 7, Rank: -1, Name: "end", A: model.Null, B: model.Null}}}
	f := finding(t, judged(t, Options{}, cudaRun(n, rate, 0), limited(n, limit, rate, 50),
		tree("trainer", true, stepTime(n)), kill), detect.Heap, "")
	if !f.Met || !f.Over || f.Seconds != 0 || f.AtStep != n || f.Limit != "cgroup 4 GiB" {
		t.Errorf("killed: %s in %.1f s at step %.0f, met %t", f.Limit, f.Seconds, f.AtStep, f.Met)
	}
	f = finding(t, judged(t, Options{Until: 560}, cudaRun(n, rate, 0), limited(n, limit, rate, 50),
		tree("trainer", true, stepTime(n)), kill), detect.Heap, "")
	if f.Met || f.Over || math.Abs(f.AtStep/(left+n)-1) > 0.03 {
		t.Errorf("asked for step 560: at step %.0f, want %.0f (met %t, over %t)", f.AtStep, left+n, f.Met, f.Over)
	}
}

// TestOutOfMemoryEarly: a training that ends with a failed allocation is judged on fewer steps than one that goes on,
// where it is about that memory. An error that the program caught ends nothing.
func TestOutOfMemoryEarly(t *testing.T) {
	const steps = 157 // of 512 MiB a step fill 80 GiB
	for name, c := range map[string]struct {
		text   string
		device int64
		want   detect.Verdict
	}{
		"of the device":  {"OutOfMemoryError: CUDA out of memory", 1, detect.Leak},
		"of another one": {"OutOfMemoryError: CUDA out of memory", 0, detect.Undecided},
		"of the host":    {"RuntimeError: DefaultCPUAllocator: can't allocate memory", -1, detect.Undecided},
		"caught":         {"cuda:1: an allocation failed and the program went on (1 so far)", 1, detect.Undecided},
	} {
		end := &model.Batch{Events: []model.Event{
			{Time: stepTime(steps) + 30_000, PID: 7, Rank: -1, Name: "oom", Text: c.text, A: 512 * mib, B: c.device},
			{Time: stepTime(steps) + 6e6, PID: 7, Rank: -1, Name: "end", A: model.Null, B: model.Null}}}
		f := finding(t, judged(t, Options{}, cudaRun(steps, 0, 512*mib), end), detect.Device, "cuda:1")
		if f.Verdict != c.want || f.Verdict == detect.Leak && math.Abs(f.Rate/float64(512*mib)-1) > 0.01 {
			t.Errorf("%s: %v", name, f.Growth)
		}
	}
}

// service are samples of a program without steps: dense at first as the sampler's are, anonymous memory grows by rate
// bytes a second.
func service(seconds float64, rate float64) *model.Batch {
	b := &model.Batch{}
	for i, at := 0, 0.0; at <= seconds; i++ {
		now := begin + int64(at*1e6)
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: now, PID: 7, StartTicks: 1, Rank: -1,
			RSS: 200 * mib, File: 50 * mib, VMSize: gib, Anon: 100*mib + int64(rate*at) + jitter(i), PSS: model.Null,
			HeapInUse: model.Null, HeapHeld: model.Null})
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: now, Total: 16 * gib,
			Available: 10*gib - int64(rate*at)})
		if at += 0.1; at > 20 {
			at += 0.9
		}
	}
	return b
}

// TestProgramsWithoutSteps: they are judged by time, at uneven readings too.
func TestProgramsWithoutSteps(t *testing.T) {
	rate := 1.2 * float64(mib)
	r := judged(t, Options{}, service(60, rate), tree("main", false, begin+60e6))
	f := finding(t, r, detect.Anon, "")
	if r.Verdict != detect.Leak || !f.ByTime || math.Abs(f.Rate/rate-1) > 0.02 || f.PerStep() != "+1.20 MiB/s" ||
		!r.ByTime() {
		t.Errorf("%s: %s %v", r.Verdict, f.PerStep(), f.Growth)
	}
	if left := float64(10*gib)/rate - 60; math.Abs(f.Seconds/left-1) > 0.05 || f.End < 58 || f.End > 61 {
		t.Errorf("%s in %.0f s, want %.0f; the last reading at %.0f s", f.Limit, f.Seconds, left, f.End)
	}
	r = judged(t, Options{}, service(60, 0), tree("main", false, begin+60e6))
	if r.Verdict != detect.Healthy || !strings.Contains(r.Line(), "60 s") && !strings.Contains(r.Line(), "1 min") {
		t.Errorf("nothing grows: %s", r.Line())
	}
	r = judged(t, Options{}, service(8, rate), tree("main", false, begin+8e6))
	if r.Verdict != detect.Undecided || r.Needs < 10 || r.Needs > 14 || !strings.Contains(r.Line(), "more seconds") {
		t.Errorf("eight seconds: %s", r.Line())
	}
	// the last readings fall into the interpreter's tearing down
	ends := service(60, rate)
	for i := range ends.Samples.Memory[len(ends.Samples.Memory)-3:] {
		ends.Samples.Memory[len(ends.Samples.Memory)-3+i].Anon = 80 * mib
	}
	r = judged(t, Options{}, ends, tree("main", true, begin+60e6),
		&model.Batch{Events: []model.Event{{Time: begin + 57_500_000, PID: 7, Rank: -1, Name: "exit"}}})
	if r.Verdict != detect.Leak {
		t.Errorf("torn down: %s", r.Line())
	}
	// PyTorch is loaded and no step made: what fills up may be the data.
	r = judged(t, Options{}, service(60, rate), tree("trainer", false, begin+60e6))
	if r.Verdict != detect.Undecided || !strings.Contains(r.Line(), "no step yet") {
		t.Errorf("before the first step: %s", r.Line())
	}
}

// TestFilePagesBesideALeak: a leak of the heap takes address space too. File pages that come in meanwhile are not
// another leak, however many maps they are of; those that are written to are.
func TestFilePagesBesideALeak(t *testing.T) {
	pages := func(written int64) *model.Batch {
		b := &model.Batch{}
		for i := 5; i <= 600; i += 5 {
			heap := 256 * kib * int64(i)
			b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: stepTime(i) + 1000, PID: 7,
				StartTicks: 1, Rank: -1, RSS: gib, Anon: 900*mib + heap, File: 300*mib + 40*kib*int64(i) + jitter(i),
				VMSize: 20*gib + heap + 40*kib*int64(i), PSS: model.Null, HeapInUse: model.Null,
				HeapHeld: model.Null, PrivateDirty: 900*mib + heap + 40*kib*int64(i)*written})
		}
		return b
	}
	for written, leaks := range map[int64]int{0: 1, 1: 2} {
		r, n := judged(t, Options{}, cudaRun(600, 256*kib, 0), pages(written), tree("trainer", false, stepTime(600))), 0
		for _, f := range r.Findings {
			if f.Verdict == detect.Leak {
				n++
			}
		}
		if n != leaks {
			t.Errorf("written %d: %d leaks, want %d", written, n, leaks)
		}
	}
}

// TestSharedMemoryThatNobodyMaps: what is charged to the job beyond what its processes map is judged by itself.
func TestSharedMemoryThatNobodyMaps(t *testing.T) {
	for rate, want := range map[int64]detect.Verdict{0: detect.Healthy, 40 * kib: detect.Leak} {
		b := limited(1000, 16*gib, 0, 0)
		for i := range b.Samples.Cgroups {
			b.Samples.Cgroups[i].Shmem = 10*mib + rate*int64(2*i) + jitter(i)
		}
		r := judged(t, Options{}, cudaRun(1000, 0, 0), b, tree("trainer", false, stepTime(1000)))
		if r.Verdict != want {
			t.Errorf("%d B a step: %s", rate, r.Line())
		}
		if f := r.Findings[0]; want == detect.Leak && (f.Memory != detect.Shared ||
			math.Abs(f.Rate/float64(rate)-1) > 0.02) {
			t.Errorf("%s %v", f.Memory, f.Growth)
		}
	}
}

// TestSharedMemoryBesideOthers: in a cgroup that other processes share with the job nobody knows whose it is.
func TestSharedMemoryBesideOthers(t *testing.T) {
	for beside, want := range map[int64]detect.Verdict{60 * mib: detect.Leak, 700 * mib: detect.Healthy} {
		b := limited(1000, 16*gib, 0, 0)
		for i := range b.Samples.Cgroups {
			c := &b.Samples.Cgroups[i]
			c.Shmem, c.Anon = 10*mib+40*kib*int64(2*i)+jitter(i), 900*mib+beside
			b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: c.Time, PID: 7, Anon: 900 * mib})
		}
		r := judged(t, Options{}, cudaRun(1000, 0, 0), b, tree("trainer", false, stepTime(1000)))
		if r.Verdict != want {
			t.Errorf("%d MiB of others: %s", beside/mib, r.Line())
		}
	}
}
