package store

// sampleTables are the tables of the samplers, with what lies behind each.
var sampleTables = map[string]struct{ physical, doc string }{
	"process.memory":        {"store.process_memory", "memory of each process of the job, every second"},
	"process.classes":       {"store.process_classes", "what the maps of each process are for, read as a job grows"},
	"process.tree":          {"store.process_tree", "the processes of the job, whatever they are written in"},
	"process.envs":          {"store.process_envs", "environment of the job's processes, secrets redacted"},
	"cpu.utilization":       {"store.utilization", "what processes and threads do with the CPU"},
	"cgroup.memory":         {"store.cgroup_memory", "the cgroup that the job is charged to, and the limit that binds"},
	"host.memory":           {"store.host_memory", "the machine's memory"},
	"gpu.devices":           {"store.gpu_devices", "the GPUs of this machine"},
	"gpu.utilization":       {"store.gpu_utilization", "memory and load of each GPU, every second"},
	"gpu.processes":         {"store.gpu_processes", "GPU memory by process"},
	"gpu.events":            {"store.gpu_events", "Xid errors, devices lost and found"},
	"memgauge.event_window": {"store.event_window", "the time before an OOM event at full resolution"},
}

// sampleDoc is the line of a sampler's table, or of what lies behind it.
func sampleDoc(table string) string {
	if t, ok := sampleTables[table]; ok {
		return t.doc
	}
	if view := viewOf(table); view != "" {
		return "behind " + view
	}
	return ""
}

func viewOf(physical string) string {
	for view, t := range sampleTables {
		if t.physical == physical {
			return view
		}
	}
	return ""
}

// sampleColumnDoc is a column's line, by table and name, else by name; "" if it has none here. What each one is in the
// kernel stands in docs/memory-picture.md.
func sampleColumnDoc(table, column string) string {
	view := table
	if _, ok := sampleTables[table]; !ok {
		if view = viewOf(table); view == "" {
			return ""
		}
	}
	if doc, ok := sampleColumns[view+"."+column]; ok {
		return doc
	}
	return sampleColumns[column]
}

var sampleColumns = map[string]string{
	"rank":            "rank in the distributed job; NULL while unknown, and of processes that have none",
	"python_arenas":   "bytes of the arenas of Python's allocator; NULL where they can't be told from other maps (before CPython 3.15)",
	"anonymous":       "bytes of other anonymous maps",
	"stacks":          "bytes of threads' stacks",
	"shared":          "bytes of shared memory, divided among those who share it",
	"rss":             "bytes resident: anon + file + shmem",
	"pss":             "bytes resident, pages that processes share divided among them; NULL where not taken",
	"anon":            "bytes resident, anonymous: heap, stacks, anonymous maps",
	"file":            "bytes resident of mapped files",
	"shmem":           "bytes resident of shared memory: tmpfs, memfd, shared anonymous maps",
	"swap":            "bytes swapped out",
	"swap_pss":        "bytes swapped out, shared ones divided; NULL where not taken",
	"private_dirty":   "bytes that only this process has and has written (a worker's copies on write); NULL where not taken",
	"private_clean":   "bytes that only this process has and that a file holds too; NULL where not taken",
	"pss_anon":        "bytes of pss that are anonymous; NULL where not taken",
	"pss_file":        "bytes of pss that are of files; NULL where not taken",
	"pss_shmem":       "bytes of pss that are shared memory; NULL where not taken",
	"hwm":             "bytes, the highest rss so far (VmHWM)",
	"page_tables":     "bytes of page tables",
	"locked":          "bytes locked with mlock",
	"pinned":          "bytes pinned for devices or DMA (VmPin)",
	"vm_size":         "bytes of address space",
	"heap_free":       "bytes that malloc holds and has not handed out; NULL where not taken",
	"threads":         "threads",
	"minor_faults":    "page faults without I/O, since the process (or cgroup) began",
	"major_faults":    "page faults that waited for I/O, since the process (or cgroup) began",
	"cpu_user":        "s of CPU time since the process began",
	"cpu_system":      "s of CPU time in the kernel since the process began",
	"user_ns":         "ns of CPU time since the process began",
	"system_ns":       "ns of CPU time in the kernel since the process began",
	"read_bytes":      "bytes read from storage since the process began; NULL where the kernel keeps it to itself",
	"written_bytes":   "bytes written to storage since the process began; NULL where the kernel keeps it to itself",
	"role":            "launcher, trainer, worker, helper (resource tracker …), main (the command), other",
	"comm":            "name of the process or thread as the kernel has it",
	"command":         "command line",
	"cgroup":          "cgroup of the process (of the memory controller)",
	"ns_pid":          "its own pid in the innermost PID namespace",
	"first_seen":      "time (UTC)",
	"last_seen":       "time (UTC)",
	"peak_rss":        "bytes, the highest resident set",
	"value":           "value; <redacted> where the name or the text looks like a secret",
	"scope":           "what the row is about",
	"tid":             "thread id; NULL for the whole process",
	"cpu_user_pct":    "% of one core since the row before; NULL on the first",
	"cpu_sys_pct":     "% of one core in the kernel since the row before; NULL on the first",
	"cpu_total_pct":   "% of one core, both",
	"user_pct":        "% of one core",
	"sys_pct":         "% of one core in the kernel",
	"rss_kb":          "KiB resident; NULL for threads",
	"thread_count":    "threads; NULL for threads",
	"state":           "R running, S sleeping, D waiting for I/O, T stopped, Z ended",
	"wchan":           "kernel function in which it sleeps; '' when it runs or that is hidden",
	"path":            "cgroup, below its hierarchy's root",
	"version":         "1 or 2: the kernel's interface",
	"current":         "bytes charged now",
	"limit_bytes":     "bytes, the lowest max of the cgroup and all above it; NULL without any",
	"limit_path":      "the cgroup whose max that is",
	"high":            "bytes, the lowest memory.high of the cgroup and all above it: throttling begins; NULL without any",
	"max":             "bytes, the cgroup's own max; NULL without one",
	"peak":            "bytes, the highest that was charged; NULL where the kernel does not tell",
	"swap_max":        "bytes of swap that may be used; NULL without a limit",
	"kernel":          "bytes of kernel memory: page tables, stacks, slab …",
	"kernel_stack":    "bytes of threads' kernel stacks",
	"slab":            "bytes of the kernel's own objects",
	"sock":            "bytes of network buffers",
	"inactive_anon":   "bytes not used lately",
	"active_anon":     "bytes used lately",
	"inactive_file":   "bytes of page cache not used lately: given up first",
	"active_file":     "bytes of page cache used lately",
	"unevictable":     "bytes that can't be reclaimed (locked …)",
	"file_mapped":     "bytes of page cache that are mapped",
	"file_dirty":      "bytes of page cache to be written",
	"file_writeback":  "bytes being written",
	"refault_file":    "pages of files read again soon after they were reclaimed",
	"refault_anon":    "pages swapped in soon after they were swapped out",
	"events_low":      "times reclaimed although below memory.low",
	"events_high":     "times throttled at memory.high",
	"events_max":      "times the limit was hit",
	"events_oom":      "times that reclaim could not help",
	"events_oom_kill": "processes killed by the OOM killer in the cgroup and below",
	"psi_some_avg10":  "% of the last 10 s in which some task waited for memory; NULL without PSI",
	"psi_full_avg10":  "% of the last 10 s in which all tasks waited for memory; NULL without PSI",
	"psi_some_us":     "µs in all in which some task waited for memory",
	"psi_full_us":     "µs in all in which all tasks waited for memory",
	"total":           "bytes of memory",
	"available":       "bytes that programs could get without swapping (the kernel's estimate)",
	"free":            "bytes unused",
	"buffers":         "bytes of block devices' cache",
	"cached":          "bytes of page cache, shared memory included",
	"mapped":          "bytes of files that are mapped",
	"dirty":           "bytes to be written to files",
	"writeback":       "bytes being written to files",
	"mlocked":         "bytes locked with mlock",
	"swap_total":      "bytes of swap",
	"swap_free":       "bytes of swap unused",
	"committed":       "bytes promised to programs",
	"commit_limit":    "bytes that may be promised in strict mode",
	"huge_total":      "bytes set aside as huge pages",
	"huge_free":       "bytes of them unused",
	"shm_total":       "bytes that /dev/shm may hold",
	"shm_used":        "bytes in /dev/shm",
	"oom_kills":       "processes killed by the OOM killer since boot",
	"device_id":       "number of the GPU by the driver's order (nvidia-smi)",
	"uuid":            "the device's own identity",
	"vendor":          "nvidia, amd, intel",
	"driver":          "driver and its version",
	"bus_id":          "PCI address",
	"total_bytes":     "bytes of memory",
	"parent":          "the GPU that a MIG instance is a part of; NULL for a whole GPU",
	"unified":         "whether it shares the host's memory",
	"visible_as":      "number in the job (CUDA_VISIBLE_DEVICES); NULL when hidden from it",
	"used_bytes":      "bytes in use",
	"free_bytes":      "bytes unused",
	"reserved_bytes":  "bytes that the driver keeps for itself",
	"mem_used_pct":    "% of total_bytes in use",
	"gpu_util_pct":    "% of the driver's last period in which a kernel ran",
	"mem_util_pct":    "% of the driver's last period in which memory was read or written",
	"temperature_c":   "°C",
	"power_w":         "W",
	"power_limit_w":   "W",
	"power_mw":        "mW",
	"power_limit_mw":  "mW",
	"sm_clock_mhz":    "MHz",
	"mem_clock_mhz":   "MHz",
	"throttle":        "why clocks are held down; '' if they aren't",
	"ecc_corrected":   "corrected memory errors since the driver was loaded",
	"ecc_uncorrected": "uncorrected memory errors since the driver was loaded",
	"pcie_rx_bytes":   "bytes/s to the GPU",
	"pcie_tx_bytes":   "bytes/s from the GPU",
	"pcie_generation": "PCIe generation now",
	"pcie_width":      "PCIe lanes now",
	"kind":            "kind",
	"in_job":          "whether the process belongs to this job",
	"code":            "number by kind, such as the Xid",
	"event_ts":        "ts of the event in memgauge.events",
	"bytes":           "bytes held at that time",

	"process.memory.heap_in_use":  "bytes that malloc has handed out, at the agent's last reading; NULL without one",
	"process.memory.heap_held":    "bytes that malloc holds from the kernel, at the agent's last reading; NULL without one",
	"process.tree.started":        "time (UTC) when it was started",
	"process.tree.ended":          "whether it has ended",
	"process.envs.name":           "name of the variable",
	"cpu.utilization.scope":       "process or thread",
	"cpu.utilization.rss":         "bytes resident; NULL for threads",
	"cpu.utilization.threads":     "threads; NULL for threads",
	"cgroup.memory.anon":          "bytes of anonymous memory charged",
	"cgroup.memory.file":          "bytes of page cache charged, shared memory not included",
	"cgroup.memory.shmem":         "bytes of shared memory charged",
	"cgroup.memory.swap":          "bytes of swap used",
	"host.memory.anon":            "bytes of anonymous memory",
	"host.memory.shmem":           "bytes of shared memory",
	"slab_reclaimable":            "bytes of slab that can be given back",
	"gpu.devices.ts":              "time (UTC) when it was first seen",
	"gpu.devices.name":            "model",
	"gpu.devices.state":           "ok, or what is wrong",
	"gpu.utilization.name":        "model",
	"gpu.utilization.state":       "ok, or why there are no figures",
	"gpu.processes.kind":          "compute, graphics, or the DRM driver's word",
	"gpu.processes.used_bytes":    "bytes of the GPU; NULL where the driver does not tell",
	"gpu.events.kind":             "xid, lost, found, ecc",
	"memgauge.event_window.scope": "process, cgroup or host",
	"memgauge.event_window.name":  "command, cgroup's path",
}
