package picture_test

import (
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

// tablesOf makes a real database with these rows.
func tablesOf(t *testing.T, b *model.Batch) picture.Query {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "session.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return api.Into(&service.Service{Open: service.Opened(db)})
}

// A job on GPU 1, which it sees as cuda:0: at first 1 GiB reserved and 1.5 GiB by the driver's count, then 4 and 7.
func TestDevicesOfTables(t *testing.T) {
	const gib, null = 1 << 30, model.Null
	var b model.Batch
	s := &b.Samples
	s.Devices = []model.GPUDevice{{Device: 0, UUID: "a", Parent: -1, CUDAVisible: -1},
		{Device: 1, UUID: "b", Parent: -1, CUDAVisible: 0}}
	for i := range int64(2) {
		at := (10 + i) * 1e6
		reserved := []int64{gib, 4 * gib}[i]
		used := []int64{gib * 3 / 2, 7 * gib}[i]
		b.Devices = append(b.Devices, model.StepDevice{Time: at - 1e5, PID: 5, Rank: -1, Step: i + 1, Steps: 1,
			Device: 0, Allocated: reserved / 2, Reserved: reserved})
		for d := range int32(2) {
			s.GPUs = append(s.GPUs, model.GPUUtilization{Time: at, Device: d, Name: "A100", Used: 10 * gib,
				Total: 80 * gib, State: "ok"})
		}
		s.GPUProcs = append(s.GPUProcs, model.GPUProcess{Time: at, Device: 1, PID: 5, Used: used, InJob: true},
			model.GPUProcess{Time: at, Device: 1, PID: 9, Used: 2 * gib}, model.GPUProcess{Time: at, Device: 0, PID: 9,
				Used: null})
	}
	d, err := picture.Devices(t.Context(), tablesOf(t, &b), false)
	if err != nil || len(d) != 2 {
		t.Fatalf("%+v %v", d, err)
	}
	one := d["1"]
	for what, c := range map[string]struct {
		got  *int64
		want int64
	}{"live": {one.Live, 2 * gib}, "cached": {one.Cached, 2 * gib}, "context": {one.Context, gib / 2},
		"outside": {one.Outside, 5 * gib / 2},
		"others":  {one.Others, 2 * gib}, "driver": {one.Driver, gib}, "used": {one.Used, 10 * gib}} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s is %s, want %d", what, picture.Num(c.got), c.want)
		}
	}
	if other := d["0"]; other.Others != nil || other.Live != nil || *other.Used != 10*gib {
		t.Errorf("%+v", other)
	}
}

// TestRecordedClasses: a finished session's memory is divided as its maps were next to its peak, and leaves nothing
// unexplained.
func TestRecordedClasses(t *testing.T) {
	const mib = 1 << 20
	var b model.Batch
	for i, anon := range []int64{200 * mib, 400 * mib, 50 * mib} {
		at := int64(10+i)*1e6 + 1e5
		for pid := int32(5); pid < 7; pid++ { // a trainer and its forked worker, which share half of their pages
			b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: at, PID: pid, StartTicks: 1, Rank: -1,
				RSS: anon + 40*mib, Anon: anon, File: 40 * mib, PageTables: mib, PSS: model.Null, PSSAnon: model.Null,
				HeapInUse: model.Null, HeapHeld: model.Null})
		}
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: at, Total: 1 << 40})
	}
	for pid := int32(5); pid < 7; pid++ {
		b.Samples.Classes = append(b.Samples.Classes,
			model.ProcessClasses{Time: 10_200_000, PID: pid, StartTicks: 1, Rank: -1, PSS: 95 * mib,
				HeapInUse: model.Null, HeapFree: model.Null, Python: model.Null, Anonymous: 75 * mib, File: 20 * mib},
			model.ProcessClasses{Time: 11_000_000, PID: pid, StartTicks: 1, Rank: -1, PSS: 170 * mib,
				HeapInUse: 90 * mib, HeapFree: 10 * mib, Python: model.Null, Anonymous: 40 * mib, Stacks: 8 * mib,
				File: 20 * mib, Shared: 0, Pinned: 2 * mib})
	}
	b.Samples.Tree = []model.TreeProcess{{PID: 5, StartTicks: 1, Role: "trainer", Rank: -1},
		{PID: 6, StartTicks: 1, Role: "worker", Rank: -1}}
	p, err := picture.Recorded(t.Context(), tablesOf(t, &b))
	if err != nil || len(p.Processes) != 2 {
		t.Fatalf("%+v %v", p, err)
	}
	for _, x := range p.Processes {
		c := x.Classes
		if c.Stacks == nil || *c.Stacks != 8*mib || *c.Pinned != 2*mib || *c.File != 20*mib || *c.HeapInUse < 180*mib ||
			*c.HeapInUse > 188*mib || c.PythonArenas != nil {
			t.Errorf("%+v: %s %s", x, picture.Num(c.HeapInUse), picture.Num(c.HeapFree))
		}
		if sum := *c.HeapInUse + *c.HeapFree + *c.Anonymous + *c.Stacks + *c.Pinned; sum < 300*mib-8 || sum > 300*mib {
			t.Errorf("anonymous classes add up to %d, want 300 MiB", sum)
		}
	}
	if rest := *p.Host.Unexplained; rest != 0 {
		t.Errorf("%d bytes are unexplained of %d", rest, *p.Host.Charged)
	}
}

// A finished session is shown at its fullest, shared pages divided as they were when that was last measured.
func TestRecordedPicture(t *testing.T) {
	const mib = 1 << 20
	var b model.Batch
	for i := range int64(3) {
		at, anon := (10+i)*1e6, []int64{100 * mib, 300 * mib, 200 * mib}[i]
		one := model.ProcessMemory{Time: at, PID: 5, StartTicks: 1, Rank: 0, RSS: anon, Anon: anon, File: 0, Shmem: 0,
			PageTables: mib, PSS: model.Null, PSSAnon: model.Null, HeapInUse: 120 * mib, HeapHeld: 150 * mib}
		if i == 0 {
			one.PSS, one.PSSAnon = 50*mib, 50*mib
		}
		b.Samples.Memory = append(b.Samples.Memory, one)
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: at, Total: 1 << 40})
	}
	b.Samples.Tree = []model.TreeProcess{{PID: 5, StartTicks: 1, Role: "trainer", Command: "python train.py", Rank: 0}}
	p, err := picture.Recorded(t.Context(), tablesOf(t, &b))
	if err != nil || len(p.Processes) != 1 {
		t.Fatalf("%+v %v", p, err)
	}
	x := p.Processes[0]
	if x.Role != "trainer" || x.Command != "python train.py" || *x.Rank != 0 || *x.Classes.HeapInUse != 60*mib ||
		*x.Classes.HeapFree != 15*mib ||
		*x.Classes.Anonymous != 75*mib || x.Classes.Stacks != nil || *p.Host.Limit != 1<<40 {
		c := x.Classes
		t.Errorf("%+v %s %s %s", x, picture.Num(c.HeapInUse), picture.Num(c.HeapFree), picture.Num(c.Anonymous))
	}
}

// TestDevicesOfAnEndedJob: the last sample comes after the processes have gone, so the one with most in use is shown.
func TestDevicesOfAnEndedJob(t *testing.T) {
	const gib, null = int64(1) << 30, model.Null
	var b model.Batch
	s := &b.Samples
	s.Devices = append(s.Devices, model.GPUDevice{Time: 1, Device: 0, UUID: "u0", Name: "H100", Total: 80 * gib,
		Parent: -1, CUDAVisible: 0, State: "ok"})
	for i, used := range []int64{gib, 9 * gib, 0} {
		at := int64(10+i) * 1e6
		s.GPUs = append(s.GPUs, model.GPUUtilization{Time: at, Device: 0, Name: "H100", Used: used, Total: 80 * gib,
			Reserved: null, State: "ok"})
		if used > 0 {
			b.Devices = append(b.Devices, model.StepDevice{Time: at - 1e5, PID: 5, Rank: -1, Step: int64(i) + 1,
				Steps: 1, Device: 0, Allocated: used / 2, Reserved: used / 2})
			s.GPUProcs = append(s.GPUProcs, model.GPUProcess{Time: at, Device: 0, PID: 5, Used: used, InJob: true})
		}
	}
	d, err := picture.Devices(t.Context(), tablesOf(t, &b), true)
	if err != nil || len(d) != 1 {
		t.Fatalf("%+v %v", d, err)
	}
	if got := d["0"]; *got.Used != 9*gib || *got.Live != 9*gib/2 || *got.Context != gib/2 || *got.Driver != 0 {
		t.Errorf("%+v", got)
	}
}
