package table

import "github.com/memgauge/memgauge/internal/formats/model"

var _ = describe(func(r *model.ObjectGroup) *Table {
	return &Table{
		View: "python.objects", Store: "objects", Order: 110,
		Doc:  "what else a census saw: growth of types and containers, graphs, cycles …",
		Rows: func(b *model.Batch) any { return &b.Objects },
		Columns: columns(
			ts(&r.Time),
			pid(&r.PID),
			rank(&r.Rank),
			number("census_id", &r.Census, "number of the census in its process, from 1"),
			gauge("step", &r.Step, "number of the last step that had ended; NULL before the first"),
			text("evidence", &r.Evidence,
				"type, container, graph, cycle, traceback, hooks, extension, native, count (docs/census.md)"),
			text("type", &r.Type, "module and name of the class"),
			number("count", &r.Count, "how often"),
			gauge("delta", &r.Delta,
				"length (count where that is NULL) less that of the census before; NULL at a process's first census"),
			gauge("length", &r.Length, "items of a container, nodes of a graph, frames of a traceback; NULL otherwise"),
			gauge("bytes", &r.Bytes, "bytes of memory kept alive, each storage counted once; NULL where not known"),
			text("holder", &r.Holder,
				"who holds them: path from a global, a function's local, a thread …; NULL where not known").orNull(),
			text("site", &r.Site, "file:line that makes or keeps them; NULL where not known").orNull(),
			text("detail", &r.Detail, "which"),
			flag("estimated", &r.Estimated, "whether it was counted in a sample and scaled up"),
		),
	}
})

var _ = describe(func(r *model.TensorGroup) *Table {
	return &Table{
		View: "python.tensors", Store: "tensors", Order: 120,
		Doc:  "live tensors by holder, age and site, as a census saw them",
		Rows: func(b *model.Batch) any { return &b.Tensors },
		Columns: columns(
			ts(&r.Time),
			pid(&r.PID),
			rank(&r.Rank),
			number("census_id", &r.Census, "number of the census in its process, from 1"),
			gauge("step", &r.Step, "number of the last step that had ended; NULL before the first"),
			text("shape", &r.Shape,
				"sizes, outermost first; the most frequent where a group has several, with an ellipsis behind"),
			text("dtype", &r.Dtype, "torch's name without torch."),
			text("device", &r.Device, "cpu, cuda:N, or what torch calls it"),
			text("role", &r.Role, "tensor, parameter, buffer, optimizer"),
			number("count", &r.Count, "how often"),
			number("bytes", &r.Bytes, "bytes of memory kept alive, each storage counted once; NULL where not known"),
			gauge("fresh", &r.Fresh, "how many were not there at the census before; NULL at a process's first census"),
			gauge("oldest_step", &r.OldestStep,
				"last step at the census that saw the oldest of them; NULL where this one was the first to see them"),
			text("site", &r.Site, "file:line that makes or keeps them; NULL where not known").orNull(),
			text("holder", &r.Holder,
				"who holds them: path from a global, a function's local, a thread …; NULL where not known").orNull(),
			flag("estimated", &r.Estimated, "whether it was counted in a sample and scaled up"),
		),
	}
})

// Backtrace is filled when it is asked.
var Backtrace = describe(func(r *model.Backtrace) *Table {
	return &Table{
		View: "python.backtrace", Store: "backtrace", Order: 230,
		Doc: "every thread's Python stack, taken at the moment of the SELECT",

		Kept: true,
		Columns: columns(
			ts(&r.Time),
			pid(&r.PID),
			rank(&r.Rank),
			numberOr("tid", &r.TID, 0, "thread id; NULL where Python does not know it"),
			textOrNull("thread", &r.Name, "the thread's name; NULL where Python does not know it"),
			number("depth", &r.Depth, "0 is the innermost call"),
			text("func", &r.Func, "function; of a kernel frame what the thread is doing"),
			textOrNull("file", &r.File, "source file; NULL in a kernel frame"),
			numberOr("lineno", &r.Line, 0, "line that is being executed; NULL in a kernel frame"),
			text("frame_type", &r.Kind, "python, or kernel where Python's lock could not be had within 2 s"),
		),
	}
})
