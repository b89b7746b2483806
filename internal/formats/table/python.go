package table

import "github.com/memgauge/memgauge/internal/formats/model"

var _ = describe(func(r *model.Trace) *Table {
	return &Table{
		View: "python.torch_trace", Store: "trace", Order: 10,
		Doc:      "a row for each observed stage of a module or an optimizer, on sampled steps",
		StoreDoc: "behind python.torch_trace, in bytes and ns",
		Rows:     func(b *model.Batch) any { return &b.Trace },
		Thin: &Thin{By: "pid, step, device", Keep: []string{"arg_max(rowid, allocated)", "arg_min(rowid, allocated)",
			"arg_max(rowid, seq)"}},
		Columns: columns(
			computed("timestamp", "BIGINT", "epoch_us(ts)", "µs since the epoch"),
			ts(&r.Time),
			pid(&r.PID),
			rank(&r.Rank),
			numberOr("world_size", &r.World, -1, "number of ranks; NULL while unknown"),
			number("step", &r.Step, "number of the step in its process, from 1"),
			computed("local_step", "BIGINT", "step", "the same as step"),
			computed("global_step", "BIGINT", "step", "the same as step: each rank counts its own"),
			number("micro_step", &r.Micro, "forward passes begun in the step before this one, from 0"),
			number("seq", &r.Seq, "order within the step, from 0"),
			name("module", &r.Module,
				"name in the root's named_modules(); the root and an optimizer go by their class"),
			stage(&r.Stage, "pre forward, post forward, pre step, post step, pre backward, post backward"),
			device(&r.Device, "cpu or cuda:N"),
			gauge("allocated", &r.Allocated,
				"bytes in use; host: resident - shared").inMB("MB (2^20 bytes) in use; cpu: resident - shared"),
			gauge("max_allocated", &r.MaxAllocated,
				"bytes, the highest in the step").inMB("MB, the highest in the step"),
			gauge("cached", &r.Cached,
				"bytes that the allocator holds; host: resident").inMB("MB that the allocator holds; cpu: resident"),
			gauge("max_cached", &r.MaxCached, "bytes, the highest in the step").inMB("MB, the highest in the step"),
			gauge("allocated_delta", &r.AllocatedDelta,
				"bytes against the stage's beginning; NULL on pre rows").
				inMB("MB against the stage's beginning; NULL on pre rows"),
			gauge("max_allocated_delta", &r.MaxAllocatedDelta,
				"bytes against the stage's beginning; NULL on pre rows").
				inMB("MB against the stage's beginning; NULL on pre rows"),
			gauge("offset_ns", &r.OffsetNS,
				"ns since the step's first row").
				as("time_offset", "DOUBLE", "offset_ns / 1e9::DOUBLE", "s since the step's first row"),
			gauge("duration_ns", &r.DurationNS, "ns").
				as("duration", "DOUBLE", "duration_ns / 1e9::DOUBLE", "s; NULL on pre rows"),
			computed("sampled", "BOOLEAN", "true", "whether module hooks were in during the step"),
		),
	}
})

var _ = describe(func(r *model.StepDevice) *Table {
	return &Table{
		View: "python.step_devices", Store: "step_devices", Order: 50,
		Doc:   "every device's allocator at the end of each step",
		Rows:  func(b *model.Batch) any { return &b.Devices },
		Merge: "pid, device, inference",
		Columns: columns(
			ts(&r.Time).merge("max"),
			pid(&r.PID),
			rank(&r.Rank).merge("last"),
			number("step", &r.Step, "number of the (last) step in its process, from 1").merge("max"),
			number("steps", &r.Steps, "how many steps the row stands for").merge("sum"),
			flag("inference", &r.Inference, "whether it is a stretch of forwards without an optimizer"),
			device(&r.Device, "cuda:N"),
			gauge("allocated", &r.Allocated, "bytes in use; host: resident - shared").merge("min"),
			gauge("max_allocated", &r.MaxAllocated, "bytes, the highest since the program last reset it").merge("max"),
			gauge("reserved", &r.Reserved, "bytes that the allocator holds there").merge("min"),
			gauge("max_reserved", &r.MaxReserved, "bytes, the highest since the program last reset it").merge("max"),
		),
	}
})

var _ = describe(func(r *model.Step) *Table {
	return &Table{
		View: "python.steps", Store: "steps", Order: 60,
		Doc:   "every step of every training process, with its memory",
		Rows:  func(b *model.Batch) any { return &b.Steps },
		Merge: "pid, device, inference, kind",
		Columns: columns(
			ts(&r.Time).merge("max"),
			pid(&r.PID),
			rank(&r.Rank).merge("last"),
			numberOr("world_size", &r.World, -1, "number of ranks; NULL while unknown").merge("last"),
			number("step", &r.Step, "number of the (last) step in its process, from 1").merge("max"),
			number("steps", &r.Steps, "how many steps the row stands for").merge("sum"),
			gauge("duration_ns", &r.DurationNS, "ns").
				merge("sum").as("duration", "DOUBLE", "duration_ns / 1e9::DOUBLE",
				"s, of all its steps together; NULL for the very first"),
			flag("sampled", &r.Sampled, "whether module hooks were in during the step").merge("bool_or"),
			flag("inference", &r.Inference, "whether it is a stretch of forwards without an optimizer"),
			device(&r.Device,
				"of the devices that were read the fullest (python.step_devices has each); cpu: none was"),
			gauge("allocated", &r.Allocated, "bytes in use; host: resident - shared").merge("min"),
			gauge("max_allocated", &r.MaxAllocated, "bytes, the highest in the step").merge("max"),
			gauge("reserved", &r.Reserved, "bytes that the allocator holds; host: resident").merge("min"),
			gauge("max_reserved", &r.MaxReserved, "bytes, the highest in the step").merge("max"),
			gauge("rss", &r.RSS, "bytes resident").merge("min"),
			gauge("anon", &r.Anon, "bytes resident - shared").merge("min"),
			gauge("max_rss", &r.MaxRSS, "bytes, the highest ever, where it rose in the step; else NULL").merge("max"),
			gauge("heap_in_use", &r.HeapInUse, "bytes that malloc has handed out; NULL where not taken").merge("min"),
			gauge("heap_held", &r.HeapHeld,
				"bytes that malloc holds from the kernel; NULL where not taken").merge("min"),
			gauge("py_blocks", &r.PyBlocks, "blocks of Python's own allocator; NULL where not taken").merge("min"),
			gauge("gc_collections", &r.GCCollections, "garbage collections since the process started").merge("max"),
			gauge("gc_full", &r.GCFull, "collections of the oldest generation since the row before").merge("sum"),
			gauge("agent_ns", &r.AgentNS, "ns that observing took, by the agent's own clock").merge("sum"),
			text("kind", &r.Work,
				"what a step is: train, infer, engine, request, cell; NULL in rows of before").orNull().since(11),
			gauge("tokens", &r.Tokens, "tokens that were worked on in the steps; NULL where nobody told").
				merge("sum").since(11),
		),
	}
})
