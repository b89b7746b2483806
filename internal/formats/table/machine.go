package table

import "github.com/memgauge/memgauge/internal/formats/model"

var _ = describe(func(r *model.Utilization) *Table {
	return &Table{
		View: "cpu.utilization", Store: "utilization", Order: 20,
		Doc:  "what processes and threads do with the CPU",
		Rows: func(b *model.Batch) any { return &b.Samples.Utilization },
		Thin: highest("pid, tid", "user_pct + sys_pct"),
		Columns: columns(
			ts(&r.Time),
			pid(&r.PID),
			rankOfAny(&r.Rank),
			computed("scope", "VARCHAR", "CASE WHEN tid IS NULL THEN 'process' ELSE 'thread' END", "process or thread"),
			numberOr("tid", &r.TID, 0, "thread id; NULL for the whole process"),
			text("comm", &r.Comm, "name of the process or thread as the kernel has it"),
			share("user_pct", &r.UserPct, "% of one core").
				as("cpu_user_pct", "DOUBLE", "user_pct", "% of one core since the row before; NULL on the first"),
			share("sys_pct", &r.SysPct,
				"% of one core in the kernel").
				as("cpu_sys_pct", "DOUBLE", "sys_pct",
					"% of one core in the kernel since the row before; NULL on the first"),
			computed("cpu_total_pct", "DOUBLE", "user_pct + sys_pct", "% of one core, both"),
			gauge("rss", &r.RSS, "bytes resident; NULL for threads").
				as("rss_kb", "BIGINT", "rss // 1024", "KiB resident; NULL for threads"),
			numberOr("threads", &r.Threads, 0, "threads; NULL for threads").as("thread_count", "INTEGER",
				"threads", "threads; NULL for threads"),
			text("state", &r.State, "R running, S sleeping, D waiting for I/O, T stopped, Z ended"),
			text("wchan", &r.Wchan, "kernel function in which it sleeps; '' when it runs or that is hidden"),
		),
	}
})

var _ = describe(func(r *model.ProcessMemory) *Table {
	return &Table{
		View: "process.memory", Store: "process_memory", Order: 30,
		Doc:  "memory of each process of the job, every second",
		Rows: func(b *model.Batch) any { return &b.Samples.Memory },
		Thin: highest("pid", "rss"),
		Columns: columns(
			ts(&r.Time),
			pid(&r.PID),
			rankOfAny(&r.Rank),
			gauge("rss", &r.RSS, "bytes resident: anon + file + shmem"),
			gauge("pss", &r.PSS, "bytes resident, pages that processes share divided among them; NULL where not taken"),
			gauge("anon", &r.Anon, "bytes resident, anonymous: heap, stacks, anonymous maps"),
			gauge("file", &r.File, "bytes resident of mapped files"),
			gauge("shmem", &r.Shmem, "bytes resident of shared memory: tmpfs, memfd, shared anonymous maps"),
			gauge("swap", &r.Swap, "bytes swapped out"),
			gauge("private_dirty", &r.PrivateDirty,
				"bytes that only this process has and has written (a worker's copies on write); NULL where not taken"),
			gauge("private_clean", &r.PrivateClean,
				"bytes that only this process has and that a file holds too; NULL where not taken"),
			gauge("pss_anon", &r.PSSAnon, "bytes of pss that are anonymous; NULL where not taken"),
			gauge("pss_file", &r.PSSFile, "bytes of pss that are of files; NULL where not taken"),
			gauge("pss_shmem", &r.PSSShmem, "bytes of pss that are shared memory; NULL where not taken"),
			gauge("swap_pss", &r.SwapPSS, "bytes swapped out, shared ones divided; NULL where not taken"),
			gauge("hwm", &r.HWM, "bytes, the highest rss so far (VmHWM)"),
			gauge("page_tables", &r.PageTables, "bytes of page tables"),
			gauge("locked", &r.Locked, "bytes locked with mlock"),
			gauge("pinned", &r.Pinned, "bytes pinned for devices or DMA (VmPin)"),
			gauge("vm_size", &r.VMSize, "bytes of address space"),
			gauge("heap_in_use", &r.HeapInUse,
				"bytes that malloc has handed out, at the agent's last reading; NULL without one"),
			gauge("heap_held", &r.HeapHeld,
				"bytes that malloc holds from the kernel, at the agent's last reading; NULL without one"),
			computed("heap_free", "BIGINT", "heap_held - heap_in_use",
				"bytes that malloc holds and has not handed out; NULL where not taken"),
			numberOr("threads", &r.Threads, 0, "threads"),
			gauge("minor_faults", &r.MinorFaults, "page faults without I/O, since the process (or cgroup) began"),
			gauge("major_faults", &r.MajorFaults,
				"page faults that waited for I/O, since the process (or cgroup) began"),
			gauge("user_ns", &r.UserNS,
				"ns of CPU time since the process began").
				as("cpu_user", "DOUBLE", "user_ns / 1e9::DOUBLE", "s of CPU time since the process began"),
			gauge("system_ns", &r.SystemNS,
				"ns of CPU time in the kernel since the process began").
				as("cpu_system", "DOUBLE", "system_ns / 1e9::DOUBLE",
					"s of CPU time in the kernel since the process began"),
			gauge("read_bytes", &r.ReadBytes,
				"bytes read from storage since the process began; NULL where the kernel keeps it to itself"),
			gauge("written_bytes", &r.WrittenBytes,
				"bytes written to storage since the process began; NULL where the kernel keeps it to itself"),
			number("start_ticks", &r.StartTicks, "start of the process, clock ticks since boot"),
		),
	}
})

var _ = describe(func(r *model.CgroupMemory) *Table {
	return &Table{
		View: "cgroup.memory", Store: "cgroup_memory", Order: 80,
		Doc:  "the cgroup that the job is charged to, and the limit that binds",
		Rows: func(b *model.Batch) any { return &b.Samples.Cgroups },
		Thin: highest("path", "current"),
		Columns: columns(
			ts(&r.Time),
			text("path", &r.Path, "cgroup, below its hierarchy's root"),
			number("version", &r.Version, "1 or 2: the kernel's interface"),
			gauge("current", &r.Current, "bytes charged now"),
			gauge("limit_bytes", &r.Limit, "bytes, the lowest max of the cgroup and all above it; NULL without any"),
			text("limit_path", &r.LimitPath, "the cgroup whose max that is"),
			gauge("high", &r.High,
				"bytes, the lowest memory.high of the cgroup and all above it: throttling begins; NULL without any"),
			gauge("max", &r.Max, "bytes, the cgroup's own max; NULL without one"),
			gauge("peak", &r.Peak, "bytes, the highest that was charged; NULL where the kernel does not tell"),
			gauge("swap", &r.SwapUsed, "bytes of swap used"),
			gauge("swap_max", &r.SwapMax, "bytes of swap that may be used; NULL without a limit"),
			gauge("anon", &r.Anon, "bytes of anonymous memory charged"),
			gauge("file", &r.File, "bytes of page cache charged, shared memory not included"),
			gauge("shmem", &r.Shmem, "bytes of shared memory charged"),
			gauge("kernel", &r.Kernel, "bytes of kernel memory: page tables, stacks, slab …"),
			gauge("kernel_stack", &r.KernelStack, "bytes of threads' kernel stacks"),
			gauge("page_tables", &r.PageTables, "bytes of page tables"),
			gauge("slab", &r.Slab, "bytes of the kernel's own objects"),
			gauge("slab_reclaimable", &r.SlabReclaimable, "bytes of slab that can be given back"),
			gauge("sock", &r.Sock, "bytes of network buffers"),
			gauge("inactive_anon", &r.InactiveAnon, "bytes not used lately"),
			gauge("active_anon", &r.ActiveAnon, "bytes used lately"),
			gauge("inactive_file", &r.InactiveFile, "bytes of page cache not used lately: given up first"),
			gauge("active_file", &r.ActiveFile, "bytes of page cache used lately"),
			gauge("unevictable", &r.Unevictable, "bytes that can't be reclaimed (locked …)"),
			gauge("file_mapped", &r.FileMapped, "bytes of page cache that are mapped"),
			gauge("file_dirty", &r.FileDirty, "bytes of page cache to be written"),
			gauge("file_writeback", &r.FileWriteback, "bytes being written"),
			gauge("minor_faults", &r.Faults, "page faults without I/O, since the process (or cgroup) began"),
			gauge("major_faults", &r.MajorFaults,
				"page faults that waited for I/O, since the process (or cgroup) began"),
			gauge("refault_file", &r.RefaultFile, "pages of files read again soon after they were reclaimed"),
			gauge("refault_anon", &r.RefaultAnon, "pages swapped in soon after they were swapped out"),
			gauge("events_low", &r.EventsLow, "times reclaimed although below memory.low"),
			gauge("events_high", &r.EventsHigh, "times throttled at memory.high"),
			gauge("events_max", &r.EventsMax, "times the limit was hit"),
			gauge("events_oom", &r.EventsOOM, "times that reclaim could not help"),
			gauge("events_oom_kill", &r.EventsOOMKill, "processes killed by the OOM killer in the cgroup and below"),
			share("psi_some_avg10", &r.SomeAvg10,
				"% of the last 10 s in which some task waited for memory; NULL without PSI"),
			share("psi_full_avg10", &r.FullAvg10,
				"% of the last 10 s in which all tasks waited for memory; NULL without PSI"),
			gauge("psi_some_us", &r.SomeUS, "µs in all in which some task waited for memory"),
			gauge("psi_full_us", &r.FullUS, "µs in all in which all tasks waited for memory"),
		),
	}
})

var _ = describe(func(r *model.HostMemory) *Table {
	return &Table{
		View: "host.memory", Store: "host_memory", Order: 90,
		Doc:  "the machine's memory",
		Rows: func(b *model.Batch) any { return &b.Samples.Hosts },
		Thin: highest("true", "-available"),
		Columns: columns(
			ts(&r.Time),
			gauge("total", &r.Total, "bytes of memory"),
			gauge("available", &r.Available, "bytes that programs could get without swapping (the kernel's estimate)"),
			gauge("free", &r.Free, "bytes unused"),
			gauge("buffers", &r.Buffers, "bytes of block devices' cache"),
			gauge("cached", &r.Cached, "bytes of page cache, shared memory included"),
			gauge("anon", &r.Anon, "bytes of anonymous memory"),
			gauge("mapped", &r.Mapped, "bytes of files that are mapped"),
			gauge("shmem", &r.Shmem, "bytes of shared memory"),
			gauge("slab", &r.Slab, "bytes of the kernel's own objects"),
			gauge("slab_reclaimable", &r.SlabReclaimable, "bytes of slab that can be given back"),
			gauge("kernel_stack", &r.KernelStack, "bytes of threads' kernel stacks"),
			gauge("page_tables", &r.PageTables, "bytes of page tables"),
			gauge("dirty", &r.Dirty, "bytes to be written to files"),
			gauge("writeback", &r.Writeback, "bytes being written to files"),
			gauge("mlocked", &r.Mlocked, "bytes locked with mlock"),
			gauge("swap_total", &r.SwapTotal, "bytes of swap"),
			gauge("swap_free", &r.SwapFree, "bytes of swap unused"),
			gauge("committed", &r.Committed, "bytes promised to programs"),
			gauge("commit_limit", &r.CommitLimit, "bytes that may be promised in strict mode"),
			gauge("huge_total", &r.HugeTotal, "bytes set aside as huge pages"),
			gauge("huge_free", &r.HugeFree, "bytes of them unused"),
			gauge("shm_total", &r.ShmTotal, "bytes that /dev/shm may hold"),
			gauge("shm_used", &r.ShmUsed, "bytes in /dev/shm"),
			gauge("oom_kills", &r.OOMKills, "processes killed by the OOM killer since boot"),
			share("psi_some_avg10", &r.SomeAvg10,
				"% of the last 10 s in which some task waited for memory; NULL without PSI"),
			share("psi_full_avg10", &r.FullAvg10,
				"% of the last 10 s in which all tasks waited for memory; NULL without PSI"),
			gauge("psi_some_us", &r.SomeUS, "µs in all in which some task waited for memory"),
			gauge("psi_full_us", &r.FullUS, "µs in all in which all tasks waited for memory"),
		),
	}
})

var _ = describe(func(r *model.ProcessClasses) *Table {
	return &Table{
		View: "process.classes", Store: "process_classes", Order: 150,
		Doc:  "what the maps of each process are for, read as a job grows",
		Rows: func(b *model.Batch) any { return &b.Samples.Classes },
		Columns: columns(
			ts(&r.Time),
			pid(&r.PID),
			rankOfAny(&r.Rank),
			gauge("pss", &r.PSS, "bytes resident, pages that processes share divided among them; NULL where not taken"),
			gauge("heap_in_use", &r.HeapInUse, "bytes that malloc has handed out; NULL where not taken"),
			gauge("heap_free", &r.HeapFree, "bytes that malloc holds and has not handed out; NULL where not taken"),
			gauge("python_arenas", &r.Python,
				"bytes of the arenas of Python's allocator; NULL where they can't be told from other maps "+
					"(before CPython 3.15)"),
			gauge("anonymous", &r.Anonymous, "bytes of other anonymous maps"),
			gauge("stacks", &r.Stacks, "bytes of threads' stacks"),
			gauge("file", &r.File, "bytes resident of mapped files"),
			gauge("shared", &r.Shared, "bytes of shared memory, divided among those who share it"),
			gauge("pinned", &r.Pinned, "bytes pinned for devices or DMA (VmPin)"),
			number("start_ticks", &r.StartTicks, "start of the process, clock ticks since boot"),
		),
	}
})

var _ = describe(func(r *model.TreeProcess) *Table {
	return &Table{
		View: "process.tree", Store: "process_tree", Order: 190,
		Doc:  "the processes of the job, whatever they are written in",
		Rows: func(b *model.Batch) any { return &b.Samples.Tree },
		Key:  "pid, start_ticks", Kept: true,
		Columns: columns(
			pid(&r.PID),
			numberOr("ppid", &r.PPID, 0, "process id of the parent"),
			rankOfAny(&r.Rank),
			text("role", &r.Role, "launcher, trainer, worker, helper (resource tracker …), main (the command), other"),
			text("comm", &r.Comm, "name of the process or thread as the kernel has it"),
			text("command", &r.Command, "command line"),
			text("cgroup", &r.Cgroup, "cgroup of the process (of the memory controller)"),
			numberOr("ns_pid", &r.NSPID, 0, "its own pid in the innermost PID namespace"),
			atOr("started", &r.Started, model.Null, "time (UTC) when it was started"),
			at("first_seen", &r.FirstSeen, "time (UTC)"),
			at("last_seen", &r.LastSeen, "time (UTC)"),
			flag("ended", &r.Ended, "whether it has ended"),
			gauge("peak_rss", &r.PeakRSS, "bytes, the highest resident set"),
			number("start_ticks", &r.StartTicks, "start of the process, clock ticks since boot"),
		),
	}
})

var _ = describe(func(r *model.Env) *Table {
	return &Table{
		View: "process.envs", Store: "process_envs", Order: 200,
		Doc:  "environment of the job's processes, secrets redacted",
		Rows: func(b *model.Batch) any { return &b.Samples.Envs },
		Kept: true,
		Columns: columns(
			ts(&r.Time),
			pid(&r.PID),
			text("name", &r.Name, "name of the variable"),
			text("value", &r.Value, "value; <redacted> where the name or the text looks like a secret"),
		),
	}
})
