package recorded_test

import (
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/recorded"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

const gib = 1 << 30

func nullStep(at, step int64) model.Step {
	n := model.Null
	return model.Step{Time: at, PID: 7, Rank: 0, World: 1, Step: step, Steps: 1, DurationNS: 1e9, Device: -1,
		Allocated: n, MaxAllocated: n, Reserved: n, MaxReserved: n, RSS: n, Anon: n, MaxRSS: n, HeapInUse: n,
		HeapHeld: n, PyBlocks: n, GCCollections: n, GCFull: n, AgentNS: n}
}

// recording is a job of 100 s on a host with two cgroups and two GPUs, one of which the job uses.
func recording() *model.Batch {
	var b model.Batch
	for i := range int64(100) {
		at := i*1e6 + 1e6
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: at, Total: 64 * gib, Available: 50 * gib})
		b.Samples.Cgroups = append(b.Samples.Cgroups,
			model.CgroupMemory{Time: at, Path: "/roomy", Current: gib, Limit: 60 * gib, LimitPath: "/roomy"},
			model.CgroupMemory{Time: at, Path: "/tight", Current: 4*gib + i*10<<20, Limit: 8 * gib, LimitPath: "/tight",
				InactiveFile: gib, ActiveFile: gib / 2, FileDirty: gib / 4})
		for d := range int32(2) {
			b.Samples.GPUs = append(b.Samples.GPUs, model.GPUUtilization{Time: at, Device: d, Name: "Fake",
				Used: 12 * gib, Free: 68 * gib, Total: 80 * gib, State: "ok"})
		}
		s := nullStep(at+5e5, i+1)
		s.Device, s.Allocated, s.MaxAllocated, s.Reserved = 0, 6*gib, 8*gib, 10*gib
		b.Steps = append(b.Steps, s)
		b.Devices = append(b.Devices, model.StepDevice{Time: s.Time, PID: 7, Rank: 0, Step: s.Step, Steps: 1,
			Device: s.Device, Allocated: s.Allocated, MaxAllocated: s.MaxAllocated, Reserved: s.Reserved,
			MaxReserved: s.MaxReserved})
	}
	for d := range int32(2) {
		b.Samples.Devices = append(b.Samples.Devices, model.GPUDevice{Time: 1e6, Device: d, UUID: string(rune('a' + d)),
			Name: "Fake", Total: 80 * gib, CUDAVisible: d})
	}
	b.Events = []model.Event{{Time: 5e6, PID: 7, Name: "oom", Text: "CUDA out of memory\nmore", A: model.Null,
		B: model.Null}}
	return &b
}

func openSession(t *testing.T) (*store.DB, *recorded.Session) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "s.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, recorded.New(&service.Service{Open: service.Opened(db)})
}

func TestReadsASession(t *testing.T) {
	db, s := openSession(t)
	if err := db.Append(t.Context(), recording()); err != nil {
		t.Fatal(err)
	}
	devices, err := s.Devices(t.Context())
	if err != nil || len(devices) != 3 || devices[0] != (monitor.Device{ID: "host", Name: "cgroup /tight"}) &&
		devices[0].Name != "cgroup /roomy" || devices[2] != (monitor.Device{ID: "1", Name: "Fake"}) {
		t.Errorf("%v %v", devices, err)
	}
	all, err := s.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	byDevice := map[string][]monitor.Reading{}
	for _, r := range all {
		byDevice[r.Device] = append(byDevice[r.Device], r)
	}
	if len(byDevice["host"]) != 100 || len(byDevice["0"]) != 100 || len(byDevice["1"]) != 100 {
		t.Fatalf("%d of the host, %d and %d of the GPUs", len(byDevice["host"]), len(byDevice["0"]), len(byDevice["1"]))
	}
	// The tighter cgroup, without its clean cache (1.5 GiB less a quarter that is dirty), at the step done by then.
	last := byDevice["host"][99]
	if want := int64(4*gib + 99*10<<20 - 5*gib/4); last.Used != want || last.Total != 8*gib || last.Kind != "cgroup" ||
		last.Step != 99 {
		t.Errorf("host %+v, want %d in use", last, want)
	}
	// Its own GPU, as its allocator reports it: others hold 2 of the 80 GiB, which are unavailable to it.
	own := byDevice["0"][50]
	if own.Used != 6*gib || own.Peak != 8*gib || own.Reserved != 10*gib || own.Total != 78*gib || own.Step != 51 {
		t.Errorf("own GPU %+v", own)
	}
	// The other one, as the driver reports it.
	other := byDevice["1"][50]
	if other.Used != 12*gib || other.Total != 80*gib || other.Step != 0 {
		t.Errorf("other GPU %+v", other)
	}
	again, err := s.Read(t.Context(), nil)
	if err != nil || len(again) != 0 {
		t.Errorf("read again: %d readings, %v", len(again), err)
	}
	if n, err := s.Step(t.Context()); n != 100 || err != nil {
		t.Errorf("step %v, %v", n, err)
	}
	events, err := s.Events(t.Context())
	if err != nil || len(events) != 1 || !events[0].Bad || events[0].Text != "oom: CUDA out of memory" {
		t.Errorf("%+v %v", events, err)
	}
}

func TestReadsAnEmptySession(t *testing.T) {
	_, s := openSession(t)
	devices, err := s.Devices(t.Context())
	if err != nil || len(devices) != 1 {
		t.Errorf("%v %v", devices, err)
	}
	if all, err := s.Read(t.Context(), nil); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
	if n, err := s.Step(t.Context()); n != 0 || err != nil {
		t.Errorf("step %v, %v", n, err)
	}
	if _, why, err := s.Blocks(t.Context(), "host"); why == "" || err != nil {
		t.Errorf("%q %v", why, err)
	}
}

// A forecast from the recorded readings of the GPU: steps of 8 GiB over a floor that grows by 100 MiB a step.
func TestForecastOfARecordedGPU(t *testing.T) {
	db, s := openSession(t)
	b := recording()
	for i := range b.Devices {
		grown := int64(i) * 100 << 20
		b.Devices[i].Allocated += 50*gib + grown
		b.Devices[i].MaxAllocated += 50*gib + grown
		b.Devices[i].Reserved += 50*gib + grown
		b.Samples.GPUs[2*i].Used += 50*gib + grown
	}
	if err := db.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w, err := monitor.New(t.Context(), s, monitor.Options{Devices: []string{"0"},
		OOM: monitor.OOMOptions{Threshold: 85, Critical: 95}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	risk := w.Devices[0].Risk
	left := (78.0*1024 - 58*1024 - 99*100) / 100 // steps, of one second each
	if !risk.Predicted || risk.Steps < left*0.95-1 || risk.Steps > left*1.05+1 || risk.Within1 > 0.1 {
		t.Errorf("%+v: it is %.1f steps", risk.Forecast, left)
	}
}

// Host memory that is read after the victim of a kill has ended is not the job's; a kill that the job survived cuts
// nothing off.
func TestAFinishedJobIsJudgedAtItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		killed, ended int64 // s
		want          int
	}{"killed at its end": {60, 70, 60}, "one of several, long before": {20, 90, 90}, "not killed": {0, 80, 80}} {
		db, s := openSession(t)
		b := recording()
		b.Events = nil
		for i := int64(1); i <= c.ended; i++ {
			b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: i * 1e6, PID: 8})
			if i <= c.killed {
				b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: i * 1e6, PID: 7})
			}
		}
		if c.killed > 0 {
			b.Events = []model.Event{{Time: c.killed*1e6 + 5e5, PID: 7, Name: "oom_kill", A: model.Null, B: model.Null}}
		}
		if err := db.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		all, err := s.Read(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		host := 0
		for _, r := range all {
			if r.Device == monitor.Host {
				host++
			}
		}
		if host != c.want {
			t.Errorf("%s: %d readings, want %d", name, host, c.want)
		}
	}
}
