package store

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/model"
)

// samples writes what was read from outside of the trainer.
func samples(c *conn, s *model.Samples) error {
	for _, step := range []func() error{
		func() error { return fill(c, "process_memory", s.Memory, processMemoryColumns) },
		func() error { return fill(c, "utilization", s.Utilization, utilizationColumns) },
		func() error { return replaceTree(c, s.Tree) },
		func() error { return fill(c, "process_envs", s.Envs, envColumns) },
		func() error { return fill(c, "cgroup_memory", s.Cgroups, cgroupColumns) },
		func() error { return fill(c, "host_memory", s.Hosts, hostColumns) },
		func() error { return replaceDevices(c, s.Devices) },
		func() error { return fill(c, "gpu_utilization", s.GPUs, gpuColumns) },
		func() error { return fill(c, "gpu_processes", s.GPUProcs, gpuProcessColumns) },
		func() error { return fill(c, "gpu_events", s.GPUEvents, gpuEventColumns) },
		func() error { return fill(c, "event_window", s.Window, windowColumns) },
		func() error { return fill(c, "process_classes", s.Classes, classesColumns) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// replaceTree makes the batch's word on each process the only one; the last of several counts.
func replaceTree(c *conn, list []model.TreeProcess) error {
	if len(list) == 0 {
		return nil
	}
	last := map[string]model.TreeProcess{}
	for _, p := range list {
		last[fmt.Sprintf("(%d, %d)", p.PID, p.StartTicks)] = p
	}
	keys := slices.Sorted(maps.Keys(last))
	if err := c.exec("DELETE FROM store.process_tree WHERE (pid, start_ticks) IN (" + strings.Join(keys,
		", ") + ")"); err != nil {
		return err
	}
	rows := slices.SortedFunc(maps.Values(last), func(a, b model.TreeProcess) int { return int(a.PID - b.PID) })
	return fill(c, "process_tree", rows, treeColumns)
}

// replaceDevices is replaceTree for GPUs.
func replaceDevices(c *conn, list []model.GPUDevice) error {
	if len(list) == 0 {
		return nil
	}
	last := map[string]model.GPUDevice{}
	for _, d := range list {
		last[quote(utf8Only(d.UUID))] = d
	}
	keys := slices.Sorted(maps.Keys(last))
	if err := c.exec("DELETE FROM store.gpu_devices WHERE uuid IN (" + strings.Join(keys, ", ") + ")"); err != nil {
		return err
	}
	rows := slices.SortedFunc(maps.Values(last), func(a, b model.GPUDevice) int { return int(a.Device - b.Device) })
	return fill(c, "gpu_devices", rows, deviceColumns)
}

// putSizes fills columns of which Null is NULL.
func putSizes[T any](s *sheet, rows []T, gets ...func(*T) int64) {
	for _, get := range gets {
		putSize(s, rows, get)
	}
}

// putShare fills a column in which NaN is NULL.
func putShare[T any](s *sheet, rows []T, get func(*T) float64) {
	putOr(s, rows, math.Inf(-1), func(r *T) float64 {
		if x := get(r); !math.IsNaN(x) {
			return x
		}
		return math.Inf(-1)
	})
}

func classesColumns(s *sheet, rows []model.ProcessClasses) {
	type row = model.ProcessClasses
	put(s, rows, func(r *row) int64 { return r.Time })
	put(s, rows, func(r *row) int32 { return r.PID })
	put(s, rows, func(r *row) int64 { return r.StartTicks })
	putOr(s, rows, -1, func(r *row) int32 { return r.Rank })
	putSizes(s, rows,
		func(r *row) int64 { return r.PSS }, func(r *row) int64 { return r.HeapInUse },
		func(r *row) int64 { return r.HeapFree },
		func(r *row) int64 { return r.Python }, func(r *row) int64 { return r.Anonymous },
		func(r *row) int64 { return r.Stacks },
		func(r *row) int64 { return r.File }, func(r *row) int64 { return r.Shared },
		func(r *row) int64 { return r.Pinned })
}

func processMemoryColumns(s *sheet, rows []model.ProcessMemory) {
	type row = model.ProcessMemory
	put(s, rows, func(r *row) int64 { return r.Time })
	put(s, rows, func(r *row) int32 { return r.PID })
	put(s, rows, func(r *row) int64 { return r.StartTicks })
	putOr(s, rows, -1, func(r *row) int32 { return r.Rank })
	putSizes(s, rows,
		func(r *row) int64 { return r.RSS }, func(r *row) int64 { return r.Anon }, func(r *row) int64 { return r.File },
		func(r *row) int64 { return r.Shmem }, func(r *row) int64 { return r.Swap },
		func(r *row) int64 { return r.HWM },
		func(r *row) int64 { return r.PageTables }, func(r *row) int64 { return r.Locked },
		func(r *row) int64 { return r.Pinned },
		func(r *row) int64 { return r.VMSize }, func(r *row) int64 { return r.PSS },
		func(r *row) int64 { return r.PSSAnon },
		func(r *row) int64 { return r.PSSFile }, func(r *row) int64 { return r.PSSShmem },
		func(r *row) int64 { return r.PrivateDirty }, func(r *row) int64 { return r.PrivateClean },
		func(r *row) int64 { return r.SwapPSS }, func(r *row) int64 { return r.HeapInUse },
		func(r *row) int64 { return r.HeapHeld })
	putOr(s, rows, 0, func(r *row) int32 { return r.Threads })
	putSizes(s, rows,
		func(r *row) int64 { return r.MinorFaults }, func(r *row) int64 { return r.MajorFaults },
		func(r *row) int64 { return r.UserNS }, func(r *row) int64 { return r.SystemNS },
		func(r *row) int64 { return r.ReadBytes }, func(r *row) int64 { return r.WrittenBytes })
}

func utilizationColumns(s *sheet, rows []model.Utilization) {
	type row = model.Utilization
	put(s, rows, func(r *row) int64 { return r.Time })
	put(s, rows, func(r *row) int32 { return r.PID })
	putOr(s, rows, -1, func(r *row) int32 { return r.Rank })
	putOr(s, rows, 0, func(r *row) int32 { return r.TID })
	putText(s, rows, func(r *row) string { return r.Comm })
	putShare(s, rows, func(r *row) float64 { return r.UserPct })
	putShare(s, rows, func(r *row) float64 { return r.SysPct })
	putSize(s, rows, func(r *row) int64 { return r.RSS })
	putOr(s, rows, 0, func(r *row) int32 { return r.Threads })
	putText(s, rows, func(r *row) string { return r.State })
	putText(s, rows, func(r *row) string { return r.Wchan })
}

func treeColumns(s *sheet, rows []model.TreeProcess) {
	type row = model.TreeProcess
	put(s, rows, func(r *row) int32 { return r.PID })
	put(s, rows, func(r *row) int64 { return r.StartTicks })
	putOr(s, rows, 0, func(r *row) int32 { return r.PPID })
	putOr(s, rows, -1, func(r *row) int32 { return r.Rank })
	putText(s, rows, func(r *row) string { return r.Role })
	putText(s, rows, func(r *row) string { return r.Comm })
	putText(s, rows, func(r *row) string { return r.Command })
	putText(s, rows, func(r *row) string { return r.Cgroup })
	putOr(s, rows, 0, func(r *row) int32 { return r.NSPID })
	putSize(s, rows, func(r *row) int64 { return r.Started })
	put(s, rows, func(r *row) int64 { return r.FirstSeen })
	put(s, rows, func(r *row) int64 { return r.LastSeen })
	put(s, rows, func(r *row) bool { return r.Ended })
	putSize(s, rows, func(r *row) int64 { return r.PeakRSS })
}

func envColumns(s *sheet, rows []model.Env) {
	put(s, rows, func(r *model.Env) int64 { return r.Time })
	put(s, rows, func(r *model.Env) int32 { return r.PID })
	putText(s, rows, func(r *model.Env) string { return r.Name })
	putText(s, rows, func(r *model.Env) string { return r.Value })
}

func cgroupColumns(s *sheet, rows []model.CgroupMemory) {
	type row = model.CgroupMemory
	put(s, rows, func(r *row) int64 { return r.Time })
	putText(s, rows, func(r *row) string { return r.Path })
	put(s, rows, func(r *row) int32 { return r.Version })
	putSizes(s, rows, func(r *row) int64 { return r.Current }, func(r *row) int64 { return r.Limit })
	putText(s, rows, func(r *row) string { return r.LimitPath })
	putSizes(s, rows,
		func(r *row) int64 { return r.High }, func(r *row) int64 { return r.Max }, func(r *row) int64 { return r.Peak },
		func(r *row) int64 { return r.SwapUsed }, func(r *row) int64 { return r.SwapMax },
		func(r *row) int64 { return r.Anon },
		func(r *row) int64 { return r.File }, func(r *row) int64 { return r.Shmem },
		func(r *row) int64 { return r.Kernel },
		func(r *row) int64 { return r.KernelStack }, func(r *row) int64 { return r.PageTables },
		func(r *row) int64 { return r.Slab },
		func(r *row) int64 { return r.SlabReclaimable }, func(r *row) int64 { return r.Sock },
		func(r *row) int64 { return r.InactiveAnon }, func(r *row) int64 { return r.ActiveAnon },
		func(r *row) int64 { return r.InactiveFile }, func(r *row) int64 { return r.ActiveFile },
		func(r *row) int64 { return r.Unevictable }, func(r *row) int64 { return r.FileMapped },
		func(r *row) int64 { return r.FileDirty }, func(r *row) int64 { return r.FileWriteback },
		func(r *row) int64 { return r.Faults }, func(r *row) int64 { return r.MajorFaults },
		func(r *row) int64 { return r.RefaultFile }, func(r *row) int64 { return r.RefaultAnon },
		func(r *row) int64 { return r.EventsLow }, func(r *row) int64 { return r.EventsHigh },
		func(r *row) int64 { return r.EventsMax }, func(r *row) int64 { return r.EventsOOM },
		func(r *row) int64 { return r.EventsOOMKill })
	pressureColumns(s, rows, func(r *row) *model.Pressure { return &r.Pressure })
}

func pressureColumns[T any](s *sheet, rows []T, get func(*T) *model.Pressure) {
	putShare(s, rows, func(r *T) float64 { return get(r).SomeAvg10 })
	putShare(s, rows, func(r *T) float64 { return get(r).FullAvg10 })
	putSizes(s, rows, func(r *T) int64 { return get(r).SomeUS }, func(r *T) int64 { return get(r).FullUS })
}

func hostColumns(s *sheet, rows []model.HostMemory) {
	type row = model.HostMemory
	put(s, rows, func(r *row) int64 { return r.Time })
	putSizes(s, rows,
		func(r *row) int64 { return r.Total }, func(r *row) int64 { return r.Available },
		func(r *row) int64 { return r.Free },
		func(r *row) int64 { return r.Buffers }, func(r *row) int64 { return r.Cached },
		func(r *row) int64 { return r.Anon },
		func(r *row) int64 { return r.Mapped }, func(r *row) int64 { return r.Shmem },
		func(r *row) int64 { return r.Slab },
		func(r *row) int64 { return r.SlabReclaimable }, func(r *row) int64 { return r.KernelStack },
		func(r *row) int64 { return r.PageTables }, func(r *row) int64 { return r.Dirty },
		func(r *row) int64 { return r.Writeback },
		func(r *row) int64 { return r.Mlocked }, func(r *row) int64 { return r.SwapTotal },
		func(r *row) int64 { return r.SwapFree },
		func(r *row) int64 { return r.Committed }, func(r *row) int64 { return r.CommitLimit },
		func(r *row) int64 { return r.HugeTotal }, func(r *row) int64 { return r.HugeFree },
		func(r *row) int64 { return r.ShmTotal }, func(r *row) int64 { return r.ShmUsed },
		func(r *row) int64 { return r.OOMKills })
	pressureColumns(s, rows, func(r *row) *model.Pressure { return &r.Pressure })
}

func deviceColumns(s *sheet, rows []model.GPUDevice) {
	type row = model.GPUDevice
	put(s, rows, func(r *row) int64 { return r.Time })
	put(s, rows, func(r *row) int32 { return r.Device })
	for _, get := range []func(*row) string{
		func(r *row) string { return r.UUID }, func(r *row) string { return r.Name },
		func(r *row) string { return r.Vendor },
		func(r *row) string { return r.Driver }, func(r *row) string { return r.BusID },
	} {
		putText(s, rows, get)
	}
	putSize(s, rows, func(r *row) int64 { return r.Total })
	putOr(s, rows, -1, func(r *row) int32 { return r.Parent })
	put(s, rows, func(r *row) bool { return r.Unified })
	putOr(s, rows, -1, func(r *row) int32 { return r.CUDAVisible })
	putText(s, rows, func(r *row) string { return r.State })
}

func gpuColumns(s *sheet, rows []model.GPUUtilization) {
	type row = model.GPUUtilization
	put(s, rows, func(r *row) int64 { return r.Time })
	put(s, rows, func(r *row) int32 { return r.Device })
	putText(s, rows, func(r *row) string { return r.Name })
	putSizes(s, rows,
		func(r *row) int64 { return r.Used }, func(r *row) int64 { return r.Free },
		func(r *row) int64 { return r.Total },
		func(r *row) int64 { return r.Reserved }, func(r *row) int64 { return r.GPUPct },
		func(r *row) int64 { return r.MemPct },
		func(r *row) int64 { return r.Temperature }, func(r *row) int64 { return r.PowerMW },
		func(r *row) int64 { return r.PowerLimitMW }, func(r *row) int64 { return r.SMClockMHz },
		func(r *row) int64 { return r.MemClockMHz })
	putText(s, rows, func(r *row) string { return r.Throttle })
	putSizes(s, rows,
		func(r *row) int64 { return r.ECCCorrected }, func(r *row) int64 { return r.ECCUncorrected },
		func(r *row) int64 { return r.PCIeRxBytes }, func(r *row) int64 { return r.PCIeTxBytes },
		func(r *row) int64 { return r.PCIeGeneration }, func(r *row) int64 { return r.PCIeWidth })
	putText(s, rows, func(r *row) string { return r.State })
}

func gpuProcessColumns(s *sheet, rows []model.GPUProcess) {
	type row = model.GPUProcess
	put(s, rows, func(r *row) int64 { return r.Time })
	put(s, rows, func(r *row) int32 { return r.Device })
	put(s, rows, func(r *row) int32 { return r.PID })
	putText(s, rows, func(r *row) string { return r.Kind })
	putSize(s, rows, func(r *row) int64 { return r.Used })
	put(s, rows, func(r *row) bool { return r.InJob })
	putText(s, rows, func(r *row) string { return r.Comm })
}

func gpuEventColumns(s *sheet, rows []model.GPUEvent) {
	put(s, rows, func(r *model.GPUEvent) int64 { return r.Time })
	put(s, rows, func(r *model.GPUEvent) int32 { return r.Device })
	putText(s, rows, func(r *model.GPUEvent) string { return r.Kind })
	putSize(s, rows, func(r *model.GPUEvent) int64 { return r.Code })
	putText(s, rows, func(r *model.GPUEvent) string { return r.Text })
}

func windowColumns(s *sheet, rows []model.WindowSample) {
	type row = model.WindowSample
	put(s, rows, func(r *row) int64 { return r.Time })
	put(s, rows, func(r *row) int64 { return r.Event })
	putText(s, rows, func(r *row) string { return r.Scope })
	putOr(s, rows, 0, func(r *row) int32 { return r.PID })
	putText(s, rows, func(r *row) string { return r.Name })
	putSize(s, rows, func(r *row) int64 { return r.Bytes })
}
