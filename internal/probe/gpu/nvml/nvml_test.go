package nvml

import (
	"errors"
	"strings"
	"testing"
	"time"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/gpu"
)

// machine is go-nvml's DGX A100 with figures; the module version at hand has no other whole machine, so H100 and B200
// differ in name, memory and which functions their driver has.
func machine(name string, memory uint64, lacks ...string) *dgxa100.Server {
	s := dgxa100.New()
	s.LookupSymbolFunc = func(symbol string) error {
		for _, l := range lacks {
			if symbol == l {
				return errors.New("undefined symbol")
			}
		}
		return nil
	}
	s.EventSetCreateFunc = func() (lib.EventSet, lib.Return) { return &mock.EventSet{}, lib.ERROR_NOT_SUPPORTED }
	for i, d := range s.Devices {
		fill(d.(*dgxa100.Device), i, name, memory)
	}
	return s
}

func fill(d *dgxa100.Device, i int, name string, memory uint64) {
	d.Name = name
	d.MemoryInfo = lib.Memory{Total: memory, Used: memory / 4, Free: memory - memory/4}
	d.GetMemoryInfo_v2Func = func() (lib.Memory_v2, lib.Return) {
		return lib.Memory_v2{Total: memory, Used: memory / 4, Reserved: 1 << 29, Free: memory - memory/4 - 1<<29},
			lib.SUCCESS
	}
	d.GetUtilizationRatesFunc = func() (lib.Utilization, lib.Return) {
		return lib.Utilization{Gpu: 97, Memory: 40},
			lib.SUCCESS
	}
	d.GetTemperatureFunc = func(lib.TemperatureSensors) (uint32, lib.Return) { return 61, lib.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, lib.Return) { return 398_000, lib.SUCCESS }
	d.GetEnforcedPowerLimitFunc = func() (uint32, lib.Return) { return 400_000, lib.SUCCESS }
	d.GetClockInfoFunc = func(c lib.ClockType) (uint32, lib.Return) { return 1000 + uint32(c), lib.SUCCESS }
	d.GetCurrPcieLinkGenerationFunc = func() (int, lib.Return) { return 4, lib.SUCCESS }
	d.GetCurrPcieLinkWidthFunc = func() (int, lib.Return) { return 0, lib.ERROR_NOT_SUPPORTED }
	d.GetTotalEccErrorsFunc = func(e lib.MemoryErrorType, _ lib.EccCounterType) (uint64, lib.Return) {
		return uint64(e),
			lib.SUCCESS
	}
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, lib.Return) { return 1 | 4 | 64, lib.SUCCESS }
	d.GetComputeRunningProcessesFunc = func() ([]lib.ProcessInfo, lib.Return) {
		return []lib.ProcessInfo{{Pid: uint32(100 + i), UsedGpuMemory: memory / 8},
			{Pid: 7, UsedGpuMemory: notAvailable}}, lib.SUCCESS
	}
	d.GetGraphicsRunningProcessesFunc = func() ([]lib.ProcessInfo, lib.Return) { return nil, lib.ERROR_NOT_SUPPORTED }
}

func sampleOf(s *gpu.Set) *model.Samples {
	var out model.Samples
	s.Sample(time.Unix(1, 0), func(pid int) bool { return pid == 101 }, &out)
	return &out
}

func TestWholeMachines(t *testing.T) {
	for name, memory := range map[string]uint64{"NVIDIA A100-SXM4-40GB": 40 << 30, "NVIDIA H100 80GB HBM3": 80 << 30,
		"NVIDIA B200": 180 << 30} {
		b, err := OpenWith(machine(name, memory))
		if err != nil {
			t.Fatal(err)
		}
		set := gpu.New(b)
		out := sampleOf(set)
		if len(out.GPUs) != 8 || len(out.Devices) != 8 || len(out.GPUProcs) != 16 {
			t.Fatalf("%s: %d devices, %d processes", name, len(out.GPUs), len(out.GPUProcs))
		}
		u := out.GPUs[1]
		if u.Name != name || u.Total != int64(memory) || u.Used != int64(memory/4) || u.Reserved != 1<<29 ||
			u.GPUPct != 97 || u.Temperature != 61 ||
			u.PowerMW != 398_000 || u.PCIeWidth != model.Null || u.ECCUncorrected != 1 ||
			u.Throttle != "power cap, thermal (hardware)" {
			t.Errorf("%s: %+v", name, u)
		}
		if p := out.GPUProcs[2]; p.PID != 101 || !p.InJob || p.Device != 1 || p.Used != int64(memory/8) ||
			out.GPUProcs[3].Used != model.Null {
			t.Errorf("%s: %+v", name, out.GPUProcs[2:4])
		}
		if d := out.Devices[0]; !strings.HasPrefix(d.UUID, "GPU-") || d.Driver != "nvidia 550.54.15" ||
			d.State != gpu.StateOK {
			t.Errorf("%s: %+v", name, d)
		}
		set.Close()
	}
}

// An old driver has neither memory by version 2 nor clock reasons; nothing that it lacks is called (the mock would
// panic).
func TestOldDriver(t *testing.T) {
	s := machine("NVIDIA V100", 16<<30, symbols...)
	for _, d := range s.Devices {
		d := d.(*dgxa100.Device)
		d.GetMemoryInfo_v2Func, d.GetCurrentClocksEventReasonsFunc, d.GetEnforcedPowerLimitFunc, d.GetMigModeFunc = nil,
			nil, nil, nil
	}
	b, err := OpenWith(s)
	if err != nil {
		t.Fatal(err)
	}
	set := gpu.New(b)
	defer set.Close()
	u := sampleOf(set).GPUs[0]
	if u.Used != 4<<30 || u.Reserved != model.Null || u.Throttle != "" || u.PowerLimitMW != model.Null ||
		u.State != gpu.StateOK {
		t.Errorf("%+v", u)
	}
}

func TestNoDriver(t *testing.T) {
	s := machine("x", 1)
	s.InitFunc = func() lib.Return { return lib.ERROR_LIBRARY_NOT_FOUND }
	if _, err := OpenWith(s); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "libnvidia-ml.so.1") {
		t.Errorf("error %v", err)
	}
}

// TestWithoutTheLibrary loads what is really here, mostly nothing: that must be an error and not a crash.
func TestWithoutTheLibrary(t *testing.T) {
	b, err := Open()
	if err != nil {
		if !errors.Is(err, ErrNone) {
			t.Errorf("error %v", err)
		}
		return
	}
	b.Close()
}

// TestLostAndUnified: a GPU that falls off the bus is marked and found again by a new handle; one without memory of its
// own says so.
func TestLostAndUnified(t *testing.T) {
	s := machine("NVIDIA GB10", 8<<30)
	lost := s.Devices[2].(*dgxa100.Device)
	good := lost.GetMemoryInfo_v2Func
	lost.GetMemoryInfo_v2Func = func() (lib.Memory_v2, lib.Return) { return lib.Memory_v2{}, lib.ERROR_GPU_IS_LOST }
	lost.GetMemoryInfoFunc = func() (lib.Memory, lib.Return) { return lib.Memory{}, lib.ERROR_GPU_IS_LOST }
	unified := s.Devices[3].(*dgxa100.Device)
	unified.GetMemoryInfo_v2Func = func() (lib.Memory_v2, lib.Return) {
		return lib.Memory_v2{},
			lib.ERROR_NOT_SUPPORTED
	}
	unified.GetMemoryInfoFunc = func() (lib.Memory, lib.Return) { return lib.Memory{}, lib.ERROR_NOT_SUPPORTED }
	b, err := OpenWith(s)
	if err != nil {
		t.Fatal(err)
	}
	set := gpu.New(b)
	defer set.Close()
	out := sampleOf(set)
	if u := out.GPUs[2]; u.State != "lost: the GPU has fallen off the bus" || u.Used != model.Null {
		t.Errorf("%+v", u)
	}
	if u, d := out.GPUs[3], out.Devices[3]; u.Used != model.Null || u.State != gpu.StateOK || !d.Unified {
		t.Errorf("%+v %+v", u, d)
	}
	lost.GetMemoryInfo_v2Func = good
	out = sampleOf(set)
	if out.GPUs[2].Used != 2<<30 || len(out.GPUEvents) != 1 || out.GPUEvents[0].Kind != "found" {
		t.Errorf("%+v %+v", out.GPUs[2], out.GPUEvents)
	}
}

func TestMIG(t *testing.T) {
	s := machine("NVIDIA A100-SXM4-40GB", 40<<30)
	whole := s.Devices[0].(*dgxa100.Device)
	whole.MigMode = lib.DEVICE_MIG_ENABLE
	whole.GetMaxMigDeviceCountFunc = func() (int, lib.Return) { return 7, lib.SUCCESS }
	part := dgxa100.NewDevice(0)
	fill(part, 5, "NVIDIA A100 MIG 1g.5gb", 5<<30)
	part.UUID = "MIG-1"
	whole.GetMigDeviceHandleByIndexFunc = func(i int) (lib.Device, lib.Return) {
		if i == 1 {
			return part, lib.SUCCESS
		}
		return nil, lib.ERROR_NOT_FOUND
	}
	b, err := OpenWith(s)
	if err != nil {
		t.Fatal(err)
	}
	set := gpu.New(b)
	defer set.Close()
	set.SetVisible("MIG-1", true)
	out := sampleOf(set)
	if len(out.GPUs) != 9 || out.GPUs[1].Device != 100 || out.GPUs[1].Total != 5<<30 || out.Devices[1].Parent != 0 ||
		out.Devices[1].CUDAVisible != 0 {
		t.Errorf("%+v %+v", out.GPUs[:2], out.Devices[:2])
	}
}

func TestXid(t *testing.T) {
	s := machine("NVIDIA A100-SXM4-40GB", 40<<30)
	waiting := []lib.EventData{{Device: s.Devices[3], EventData: 79}, {EventData: 5}}
	set := &mock.EventSet{FreeFunc: func() lib.Return { return lib.SUCCESS },
		WaitFunc: func(uint32) (lib.EventData, lib.Return) {
			if len(waiting) == 0 {
				return lib.EventData{}, lib.ERROR_TIMEOUT
			}
			e := waiting[0]
			waiting = waiting[1:]
			return e, lib.SUCCESS
		}}
	s.EventSetCreateFunc = func() (lib.EventSet, lib.Return) { return set, lib.SUCCESS }
	for _, d := range s.Devices {
		d.(*dgxa100.Device).RegisterEventsFunc = func(uint64, lib.EventSet) lib.Return { return lib.SUCCESS }
	}
	b, err := OpenWith(s)
	if err != nil {
		t.Fatal(err)
	}
	g := gpu.New(b)
	defer g.Close()
	e := sampleOf(g).GPUEvents
	if len(e) != 2 || e[0].Device != 3 || e[0].Code != 79 || !strings.Contains(e[0].Text, "fallen off the bus") ||
		e[1].Device != -1 {
		t.Errorf("%+v", e)
	}
}
