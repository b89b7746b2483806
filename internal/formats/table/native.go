package table

import "github.com/memgauge/memgauge/internal/formats/model"

var _ = describe(func(r *model.NativeLive) *Table {
	return &Table{
		View: "native.live", Store: "native_live", Order: 65, Since: 8,
		Doc: "native memory that was held at a moment, by stack, estimated from samples (run --native, " +
			"attach --native)",
		Rows: func(b *model.Batch) any { return &b.NativeLive },
		Thin: &Thin{By: "pid, stack", Seconds: ThinSeconds, Keep: []string{"arg_max(rowid, ts)"}},
		Columns: columns(
			ts(&r.Time),
			pid(&r.PID),
			rank(&r.Rank),
			number("stack", &r.Stack, "number of the stack, of native.stacks; 0: all that have no row of their own"),
			number("bytes", &r.Bytes, "bytes held, estimated"),
			number("bytes_low", &r.Low, "lower end of its 95 % interval"),
			number("bytes_high", &r.High, "upper end of it"),
			number("count", &r.Count, "blocks, estimated"),
			number("samples", &r.Samples, "blocks that were sampled: an estimate from fewer than ten is coarse"),
			number("interval", &r.Interval, "bytes between two of its samples, on average by bytes"),
			text("site", &r.Site, "file:line of the program whose call allocated, or waits for the thread that did; "+
				"NULL where none is known").orNull(),
			text("called", &r.Called, "function and module of the native code that allocated; NULL unknown").orNull(),
		),
	}
})

var _ = describe(func(r *model.NativeFrame) *Table {
	return &Table{
		View: "native.stacks", Store: "native_stacks", Order: 175, Since: 8,
		Doc:  "the stacks of native.live, frame by frame",
		Rows: func(b *model.Batch) any { return &b.NativeStacks },
		Kept: true,
		Columns: columns(
			number("stack", &r.Stack, "number of the stack"),
			number("depth", &r.Depth, "0 is the innermost call"),
			text("kind", &r.Kind, "python or native"),
			text("func", &r.Func, "function; module+offset where the module has no name for it"),
			text("file", &r.File, "source file; of native code the module; NULL unknown").orNull(),
			numberOr("lineno", &r.Line, 0, "line; NULL in native code"),
		),
	}
})
