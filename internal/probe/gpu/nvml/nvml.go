// Package nvml reads NVIDIA's GPUs through the driver's own library. The library is loaded when the package is first
// used, so a machine without it works normally. Only functions that the loaded library has are called.
package nvml

import (
	"errors"
	"fmt"
	"strings"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/gpu"
)

// ErrNone means that there is no driver, or no GPU that it drives.
var ErrNone = errors.New("no NVIDIA driver")

// Backend is an initialised library.
type Backend struct {
	api     lib.Interface
	has     map[string]bool
	driver  string
	cuda    int // 12040 is 12.4
	devices []gpu.Device
	byUUID  map[string]int32
	events  lib.EventSet
}

// Open loads libnvidia-ml.so.1 and finds the GPUs.
func Open() (*Backend, error) {
	bind(library)
	return OpenWith(lib.New())
}

// symbols are the functions that not every driver has. Calling one that is missing would end the process.
var symbols = []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons",
	"nvmlDeviceGetCurrentClocksThrottleReasons",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTotalEccErrors", "nvmlEventSetCreate",
	"nvmlEventSetWait_v2"}

// OpenWith is Open with another library, such as one of go-nvml's mocks.
func OpenWith(api lib.Interface) (*Backend, error) {
	if ret := api.Init(); ret != lib.SUCCESS {
		return nil, fmt.Errorf("%w: %s", ErrNone, describe(ret))
	}
	b := &Backend{api: api, has: map[string]bool{}, byUUID: map[string]int32{}}
	for _, s := range symbols {
		b.has[s] = api.Extensions().LookupSymbol(s) == nil
	}
	if v, ret := api.SystemGetDriverVersion(); ret == lib.SUCCESS {
		b.driver = "nvidia " + v
	}
	if v, ret := api.SystemGetCudaDriverVersion(); ret == lib.SUCCESS {
		b.cuda = v
	}
	n, ret := api.DeviceGetCount()
	if ret != lib.SUCCESS {
		api.Shutdown()
		return nil, fmt.Errorf("count NVIDIA GPUs: %s", describe(ret))
	}
	for i := range n {
		b.devices = append(b.devices, &device{b: b, index: i})
	}
	b.watchEvents()
	return b, nil
}

// describe names an NVML error; lib.ErrorString calls into the library, which may not be there.
func describe(ret lib.Return) string {
	switch ret {
	case lib.ERROR_LIBRARY_NOT_FOUND:
		return "libnvidia-ml.so.1 is not installed"
	case lib.ERROR_DRIVER_NOT_LOADED:
		return "the kernel module is not loaded"
	case lib.ERROR_NO_PERMISSION:
		return "no permission"
	case lib.ERROR_GPU_IS_LOST:
		return "the GPU has fallen off the bus"
	case lib.ERROR_LIB_RM_VERSION_MISMATCH:
		return "library and kernel module are of different versions: reboot, or reload the module"
	case lib.ERROR_UNINITIALIZED:
		return "not initialised"
	case lib.ERROR_NOT_SUPPORTED:
		return "not supported"
	}
	return fmt.Sprintf("NVML error %d", int(ret))
}

// Driver returns the driver's name and version, and the newest CUDA that it runs (12040 is 12.4).
func (b *Backend) Driver() (version string, cuda int) { return b.driver, b.cuda }

// Devices lists the GPUs.
func (b *Backend) Devices() []gpu.Device { return b.devices }

// Close shuts the library down.
func (b *Backend) Close() {
	if b.events != nil {
		b.events.Free()
	}
	b.api.Shutdown()
}

func (b *Backend) watchEvents() {
	if !b.has["nvmlEventSetCreate"] || !b.has["nvmlEventSetWait_v2"] {
		return
	}
	set, ret := b.api.EventSetCreate()
	if ret != lib.SUCCESS {
		return
	}
	watched := false
	for i := range b.devices {
		if h, ret := b.api.DeviceGetHandleByIndex(i); ret == lib.SUCCESS {
			if uuid, ret := h.GetUUID(); ret == lib.SUCCESS {
				b.byUUID[uuid] = int32(i)
			}
			watched = h.RegisterEvents(lib.EventTypeXidCriticalError, set) == lib.SUCCESS || watched
		}
	}
	if !watched {
		set.Free()
		return
	}
	b.events = set
}

const maxEvents = 64 // read at once; a GPU in trouble may repeat one for ever

// Events reads the waiting events.
func (b *Backend) Events() (list []model.GPUEvent) {
	for b.events != nil && len(list) < maxEvents {
		e, ret := b.events.Wait(0)
		if ret != lib.SUCCESS {
			break
		}
		ev := model.GPUEvent{Device: -1, Kind: "xid", Code: int64(e.EventData), Text: xidText(e.EventData)}
		if e.Device != nil {
			if uuid, ret := e.Device.GetUUID(); ret == lib.SUCCESS {
				ev.Device = b.byUUID[uuid]
			}
		}
		list = append(list, ev)
	}
	return list
}

// xidText explains the most common ones (NVIDIA, "XID Errors").
func xidText(code uint64) string {
	text := map[uint64]string{13: "graphics engine exception: often an illegal access in a kernel",
		31: "memory page fault: an illegal address in a kernel",
		43: "the process's channel was reset", 45: "preemptive cleanup: the process was killed or has crashed",
		48: "double-bit ECC error",
		63: "a row or page was remapped or retired", 64: "remapping or retiring failed", 74: "NVLink error",
		79: "the GPU has fallen off the bus",
		92: "many single-bit ECC errors", 94: "contained memory error", 95: "uncontained memory error: reset the GPU",
		119: "GSP does not answer",
		120: "GSP error"}[code]
	if text == "" {
		return fmt.Sprintf("Xid %d", code)
	}
	return fmt.Sprintf("Xid %d: %s", code, text)
}

// device is a GPU. When a call has failed, its handle is fetched again: the GPU may have been reset.
type device struct {
	b      *Backend
	index  int
	handle lib.Device
	info   model.GPUDevice
	inside []lib.Device // MIG instances
	looked int          // readings since the instances were listed
}

const relist = 30 // readings after which MIG instances are listed again

// Read reads everything that changes.
func (d *device) Read() (gpu.Reading, error) {
	if d.handle == nil {
		h, ret := d.b.api.DeviceGetHandleByIndex(d.index)
		if ret != lib.SUCCESS {
			return gpu.Reading{}, errors.New(describe(ret))
		}
		d.handle = h
		d.info = d.identify(h)
		d.looked = 0
	}
	r := gpu.Reading{Info: d.info, Util: gpu.NoUtilization(d.info.Name)}
	if err := d.memory(d.handle, &r); err != nil {
		d.handle = nil
		return gpu.Reading{}, err
	}
	d.load(&r.Util)
	r.Procs = processes(d.handle)
	d.instances(&r)
	return r, nil
}

func (d *device) identify(h lib.Device) model.GPUDevice {
	info := model.GPUDevice{Vendor: "nvidia", Driver: d.b.driver, Total: model.Null, Parent: -1, CUDAVisible: -1}
	info.Name = text(h.GetName())
	info.UUID = text(h.GetUUID())
	if p, ret := h.GetPciInfo(); ret == lib.SUCCESS {
		info.BusID = busID(p.BusId[:])
	}
	return info
}

func text(s string, ret lib.Return) string {
	if ret != lib.SUCCESS {
		return ""
	}
	return s
}

func busID[T int8 | uint8](raw []T) string {
	var b strings.Builder
	for _, c := range raw {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// memory is the only indispensable reading. Version 2 reports separately what the driver keeps for itself; version 1
// counts it as used.
func (d *device) memory(h lib.Device, r *gpu.Reading) error {
	ret := lib.ERROR_NOT_SUPPORTED
	if d.b.has["nvmlDeviceGetMemoryInfo_v2"] {
		var m lib.Memory_v2
		if m, ret = h.GetMemoryInfo_v2(); ret == lib.SUCCESS {
			r.Util.Total, r.Util.Used, r.Util.Free, r.Util.Reserved = int64(m.Total), int64(m.Used), int64(m.Free),
				int64(m.Reserved)
		}
	}
	if ret != lib.SUCCESS {
		var m lib.Memory
		if m, ret = h.GetMemoryInfo(); ret == lib.SUCCESS {
			r.Util.Total, r.Util.Used, r.Util.Free = int64(m.Total), int64(m.Used), int64(m.Free)
		}
	}
	switch ret {
	case lib.SUCCESS:
		r.Info.Total = r.Util.Total
		return nil
	case lib.ERROR_NOT_SUPPORTED: // GB10, Jetson: there is no memory but the host's
		r.Info.Unified = true
		return nil
	}
	return errors.New(describe(ret))
}

// load reads what the GPU does; each figure may be unsupported by itself. PCIe throughput is left out: a call takes 20
// ms, over which the driver counts.
func (d *device) load(u *model.GPUUtilization) {
	h := d.handle
	if v, ret := h.GetUtilizationRates(); ret == lib.SUCCESS {
		u.GPUPct, u.MemPct = int64(v.Gpu), int64(v.Memory)
	}
	u.Temperature = number(h.GetTemperature(lib.TEMPERATURE_GPU))
	u.PowerMW = number(h.GetPowerUsage())
	if d.b.has["nvmlDeviceGetEnforcedPowerLimit"] {
		u.PowerLimitMW = number(h.GetEnforcedPowerLimit())
	}
	u.SMClockMHz = number(h.GetClockInfo(lib.CLOCK_SM))
	u.MemClockMHz = number(h.GetClockInfo(lib.CLOCK_MEM))
	u.PCIeGeneration = integer(h.GetCurrPcieLinkGeneration())
	u.PCIeWidth = integer(h.GetCurrPcieLinkWidth())
	if d.b.has["nvmlDeviceGetTotalEccErrors"] {
		u.ECCCorrected = long(h.GetTotalEccErrors(lib.MEMORY_ERROR_TYPE_CORRECTED, lib.VOLATILE_ECC))
		u.ECCUncorrected = long(h.GetTotalEccErrors(lib.MEMORY_ERROR_TYPE_UNCORRECTED, lib.VOLATILE_ECC))
	}
	u.Throttle = d.throttle()
}

func number(v uint32, ret lib.Return) int64 {
	if ret != lib.SUCCESS {
		return model.Null
	}
	return int64(v)
}

func integer(v int, ret lib.Return) int64 {
	if ret != lib.SUCCESS {
		return model.Null
	}
	return int64(v)
}

func long(v uint64, ret lib.Return) int64 {
	if ret != lib.SUCCESS {
		return model.Null
	}
	return int64(v)
}

// reasons why clocks are reduced; idle is none.
var reasons = []struct {
	bit  uint64
	name string
}{
	{lib.ClocksEventReasonApplicationsClocksSetting, "application clocks"}, {lib.ClocksEventReasonSwPowerCap,
		"power cap"},
	{lib.ClocksThrottleReasonHwSlowdown, "hardware slowdown"}, {lib.ClocksEventReasonSyncBoost, "sync boost"},
	{lib.ClocksEventReasonSwThermalSlowdown, "thermal (software)"}, {lib.ClocksThrottleReasonHwThermalSlowdown,
		"thermal (hardware)"},
	{lib.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"}, {lib.ClocksEventReasonDisplayClockSetting,
		"display clocks"},
}

func (d *device) throttle() string {
	var bits uint64
	ret := lib.ERROR_NOT_SUPPORTED
	switch {
	case d.b.has["nvmlDeviceGetCurrentClocksEventReasons"]:
		bits, ret = d.handle.GetCurrentClocksEventReasons()
	case d.b.has["nvmlDeviceGetCurrentClocksThrottleReasons"]:
		bits, ret = d.handle.GetCurrentClocksThrottleReasons()
	}
	if ret != lib.SUCCESS {
		return ""
	}
	var list []string
	for _, r := range reasons {
		if bits&r.bit != 0 {
			list = append(list, r.name)
		}
	}
	return strings.Join(list, ", ")
}

// notAvailable is what NVML returns if it does not know a process's bytes (NVML_VALUE_NOT_AVAILABLE).
const notAvailable = 1<<64 - 1

func processes(h lib.Device) (list []model.GPUProcess) {
	for _, kind := range []struct {
		name string
		get  func() ([]lib.ProcessInfo, lib.Return)
	}{{"compute", h.GetComputeRunningProcesses}, {"graphics", h.GetGraphicsRunningProcesses}} {
		infos, ret := kind.get()
		if ret != lib.SUCCESS {
			continue
		}
		for _, p := range infos {
			used := model.Null
			if p.UsedGpuMemory != notAvailable {
				used = int64(p.UsedGpuMemory)
			}
			list = append(list, model.GPUProcess{PID: int32(p.Pid), Kind: kind.name, Used: used})
		}
	}
	return list
}

// instances adds the MIG instances.
func (d *device) instances(r *gpu.Reading) {
	if d.looked%relist == 0 {
		d.listInstances()
	}
	d.looked++
	for _, h := range d.inside {
		inside := gpu.Reading{Info: d.identify(h)}
		inside.Info.BusID = d.info.BusID
		inside.Util = gpu.NoUtilization(inside.Info.Name)
		if d.memory(h, &inside) != nil {
			d.looked = 0 // it was removed: list them again next time
			continue
		}
		inside.Procs = processes(h)
		r.Inside = append(r.Inside, inside)
	}
}

func (d *device) listInstances() {
	d.inside = nil
	if !d.b.has["nvmlDeviceGetMigMode"] {
		return
	}
	mode, _, ret := d.handle.GetMigMode()
	if ret != lib.SUCCESS || mode != lib.DEVICE_MIG_ENABLE {
		return
	}
	n, ret := d.handle.GetMaxMigDeviceCount()
	if ret != lib.SUCCESS {
		return
	}
	for i := range n {
		if h, ret := d.handle.GetMigDeviceHandleByIndex(i); ret == lib.SUCCESS {
			d.inside = append(d.inside, h)
		}
	}
}
