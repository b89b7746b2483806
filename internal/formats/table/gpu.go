package table

import "github.com/memgauge/memgauge/internal/formats/model"

var _ = describe(func(r *model.GPUProcess) *Table {
	return &Table{
		View: "gpu.processes", Store: "gpu_processes", Order: 40,
		Doc:  "GPU memory by process",
		Rows: func(b *model.Batch) any { return &b.Samples.GPUProcs },
		Thin: highest("device_id, pid", "used_bytes"),
		Columns: columns(
			ts(&r.Time),
			number("device_id", &r.Device, "number of the GPU by the driver's order (nvidia-smi)"),
			pid(&r.PID),
			text("kind", &r.Kind, "compute, graphics, or the DRM driver's word"),
			gauge("used_bytes", &r.Used, "bytes of the GPU; NULL where the driver does not tell"),
			flag("in_job", &r.InJob, "whether the process belongs to this job"),
			text("comm", &r.Comm, "name of the process or thread as the kernel has it"),
		),
	}
})

var _ = describe(func(r *model.GPUUtilization) *Table {
	return &Table{
		View: "gpu.utilization", Store: "gpu_utilization", Order: 70,
		Doc:  "memory and load of each GPU, every second",
		Rows: func(b *model.Batch) any { return &b.Samples.GPUs },
		Thin: highest("device_id", "used_bytes"),
		Columns: columns(
			ts(&r.Time),
			number("device_id", &r.Device, "number of the GPU by the driver's order (nvidia-smi)"),
			text("name", &r.Name, "model"),
			gauge("used_bytes", &r.Used, "bytes in use"),
			gauge("free_bytes", &r.Free, "bytes unused"),
			gauge("total_bytes", &r.Total, "bytes of memory"),
			gauge("reserved_bytes", &r.Reserved, "bytes that the driver keeps for itself"),
			computed("mem_used_pct", "DOUBLE",
				"100.0::DOUBLE * used_bytes / nullif(total_bytes, 0)", "% of total_bytes in use"),
			gauge("gpu_util_pct", &r.GPUPct, "% of the driver's last period in which a kernel ran"),
			gauge("mem_util_pct", &r.MemPct, "% of the driver's last period in which memory was read or written"),
			gauge("temperature_c", &r.Temperature, "°C"),
			gauge("power_mw", &r.PowerMW, "mW").as("power_w", "DOUBLE", "power_mw / 1e3::DOUBLE", "W"),
			gauge("power_limit_mw", &r.PowerLimitMW,
				"mW").as("power_limit_w", "DOUBLE", "power_limit_mw / 1e3::DOUBLE", "W"),
			gauge("sm_clock_mhz", &r.SMClockMHz, "MHz"),
			gauge("mem_clock_mhz", &r.MemClockMHz, "MHz"),
			text("throttle", &r.Throttle, "why clocks are held down; '' if they aren't"),
			gauge("ecc_corrected", &r.ECCCorrected, "corrected memory errors since the driver was loaded"),
			gauge("ecc_uncorrected", &r.ECCUncorrected, "uncorrected memory errors since the driver was loaded"),
			gauge("pcie_rx_bytes", &r.PCIeRxBytes, "bytes/s to the GPU"),
			gauge("pcie_tx_bytes", &r.PCIeTxBytes, "bytes/s from the GPU"),
			gauge("pcie_generation", &r.PCIeGeneration, "PCIe generation now"),
			gauge("pcie_width", &r.PCIeWidth, "PCIe lanes now"),
			text("state", &r.State, "ok, or why there are no figures"),
		),
	}
})

var _ = describe(func(r *model.GPUDevice) *Table {
	return &Table{
		View: "gpu.devices", Store: "gpu_devices", Order: 210,
		Doc:  "the GPUs of this machine",
		Rows: func(b *model.Batch) any { return &b.Samples.Devices },
		Key:  "uuid", Kept: true,
		Columns: columns(
			at("ts", &r.Time, "time (UTC) when it was first seen"),
			number("device_id", &r.Device, "number of the GPU by the driver's order (nvidia-smi)"),
			text("uuid", &r.UUID, "the device's own identity"),
			text("name", &r.Name, "model"),
			text("vendor", &r.Vendor, "nvidia, amd, intel"),
			text("driver", &r.Driver, "driver and its version"),
			text("bus_id", &r.BusID, "PCI address"),
			gauge("total_bytes", &r.Total, "bytes of memory"),
			numberOr("parent", &r.Parent, -1, "the GPU that a MIG instance is a part of; NULL for a whole GPU"),
			flag("unified", &r.Unified, "whether it shares the host's memory"),
			numberOr("visible_as", &r.CUDAVisible, -1,
				"number in the job (CUDA_VISIBLE_DEVICES); NULL when hidden from it"),
			text("state", &r.State, "ok, or what is wrong"),
		),
	}
})

var _ = describe(func(r *model.GPUEvent) *Table {
	return &Table{
		View: "gpu.events", Store: "gpu_events", Order: 220,
		Doc:  "Xid errors, devices lost and found",
		Rows: func(b *model.Batch) any { return &b.Samples.GPUEvents },
		Kept: true,
		Columns: columns(
			ts(&r.Time),
			number("device_id", &r.Device, "number of the GPU by the driver's order (nvidia-smi)"),
			text("kind", &r.Kind, "xid, lost, found, ecc"),
			gauge("code", &r.Code, "number by kind, such as the Xid"),
			text("text", &r.Text, "details"),
		),
	}
})
