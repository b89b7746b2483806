package table

import "github.com/memgauge/memgauge/internal/formats/model"

var _ = describe(func(r *model.Overhead) *Table {
	return &Table{
		View: "memgauge.overhead", Store: "overhead", Order: 100,
		Doc:  "what observing cost, by part",
		Rows: func(b *model.Batch) any { return &b.Overheads },
		Columns: columns(
			ts(&r.Time),
			numberOr("pid", &r.PID, 0, "process id"),
			rank(&r.Rank),
			text("part", &r.Part, "which part of observing"),
			number("ns", &r.NS, "ns that it took"),
			number("count", &r.Count, "how often"),
			number("steps", &r.Steps, "steps in the time covered"),
			number("covered_ns", &r.CoveredNS, "ns of running time that the row covers"),
			computed("share", "DOUBLE", "ns / nullif(covered_ns, 0)", "ns / covered_ns"),
			gauge("gap", &r.Gap, "one step in so many was sampled; NULL where it has no meaning"),
			flag("measured", &r.Measured, "by comparing sampled with plain steps, not by the agent's clock"),
		),
	}
})

var _ = describe(func(r *model.Finding) *Table {
	return &Table{
		View: "memgauge.findings", Store: "findings", Order: 130,
		Doc:  "verdicts on each memory, with their evidence",
		Rows: func(b *model.Batch) any { return &b.Findings },
		Columns: columns(
			ts(&r.Time),
			number("judgement", &r.Judgement, "number of the judging, from 1; its rows stand together"),
			text("run_verdict", &r.Run, "leak, healthy or undecided, of the whole run"),
			text("verdict", &r.Verdict, "leak, healthy or undecided, of this memory"),
			text("class", &r.Class, "kind of leak (docs/detect.md)"),
			text("memory", &r.Memory, "which memory: host heap, host anonymous, worker, device …"),
			text("device", &r.Device, "cpu or cuda:N").orNull(),
			pid(&r.PID),
			rank(&r.Rank),
			flag("worker", &r.Worker, "a process that makes no steps of its own"),
			share("rate", &r.Rate, "bytes a step").
				as("rate_mb_per_step", "DOUBLE", "CASE WHEN NOT by_time THEN rate / 1048576 END",
					"MB (2^20 bytes) a step; of a server a unit"),
			share("rate_low", &r.Low, "lower end of its 95 % interval, the same unit").
				as("rate_low", "DOUBLE", "rate_low / 1048576", "lower end of its 95 % interval, the same unit"),
			share("rate_high", &r.High, "upper end of it, the same unit").
				as("rate_high", "DOUBLE", "rate_high / 1048576", "upper end of it, the same unit"),
			flag("by_time", &r.ByTime, "there are no steps: rates are by second"),
			gauge("start_step", &r.Start, "step (by time: second) from which it grows so"),
			gauge("end_step", &r.End, "last step (by time: second) that was read"),
			gauge("grown", &r.Grown, "bytes in all"),
			share("noise", &r.Noise, "bytes, standard deviation of a floor"),
			share("p", &r.P, "chance of such a rise without a trend"),
			number("readings", &r.Readings, "how many there were"),
			text("reason", &r.Reason, "why not more, in a few words"),
			text("site", &r.Site, "file:line; NULL unknown").orNull(),
			text("holder", &r.Holder, "what holds the memory; NULL unknown").orNull(),
			text("held", &r.Held, "what it is").orNull(),
			text("evidence", &r.Evidence, "what speaks for it, lines"),
			text("advice", &r.Advice, "what to do, lines"),
			text("limit_name", &r.Limit, "what it runs into; NULL unknown").orNull(),
			share("seconds_to_limit", &r.Seconds, "s, at the pace of the last steps; NULL where no limit is in sight"),
			share("seconds_low", &r.Soonest, "s, lower end of its interval"),
			share("seconds_high", &r.Latest, "s, upper end of it"),
			computed("rate_mb_per_second", "DOUBLE", "CASE WHEN by_time THEN rate / 1048576 END",
				"MB (2^20 bytes) a second; NULL where rates are by step"),
			text("unit", &r.Unit, "what rates are by, and start_step and end_step count: step, second, or of a server "+
				"request, engine step, inference; NULL in rows of before").orNull().since(12),
		),
	}
})

var _ = describe(func(r *model.WindowSample) *Table {
	return &Table{
		View: "memgauge.event_window", Store: "event_window", Order: 140,
		Doc:  "the time before an OOM event at full resolution",
		Rows: func(b *model.Batch) any { return &b.Samples.Window },
		Columns: columns(
			ts(&r.Time),
			at("event_ts", &r.Event, "ts of the event in memgauge.events"),
			text("scope", &r.Scope, "process, cgroup or host"),
			numberOr("pid", &r.PID, 0, "process id"),
			text("name", &r.Name, "command, cgroup's path"),
			gauge("bytes", &r.Bytes, "bytes held at that time"),
		),
	}
})

var _ = describe(func(r *model.Event) *Table {
	return &Table{
		View: "memgauge.events", Store: "events", Order: 160,
		Doc:  "what happened once: start, fork, eval, rank, exit …",
		Rows: func(b *model.Batch) any { return &b.Events },
		Columns: columns(
			ts(&r.Time),
			numberOr("pid", &r.PID, 0, "process id"),
			rank(&r.Rank),
			text("name", &r.Name, "name"),
			text("text", &r.Text, "details"),
			gauge("a", &r.A, "a number, by event"),
			gauge("b", &r.B, "a number, by event"),
			text("code", &r.Code, "what the text tells, for programs: of guard stopped, left out, helped, vain, "+
				"warned, webhook, failed, holder; of peak and phase saving, evaluation, compilation, first step; "+
				"of end oom_kill, oom_error; NULL for none").orNull().since(10),
		),
	}
})

var _ = describe(func(r *model.Drop) *Table {
	return &Table{
		View: "memgauge.drops", Store: "drops", Order: 170,
		Doc:  "records that are not in the tables: how many, where, why",
		Rows: func(b *model.Batch) any { return &b.Drops },
		Kept: true,
		Columns: columns(
			ts(&r.Time),
			numberOr("pid", &r.PID, 0, "process id"),
			text("source", &r.Source, "ring file or table"),
			text("reason", &r.Reason, "overwritten, damaged, unknown kind, thinned, merged, disk limit …"),
			number("records", &r.Records, "how many"),
			text("detail", &r.Detail, "which"),
		),
	}
})

var _ = describe(func(r *model.Process) *Table {
	return &Table{
		View: "memgauge.processes", Store: "processes", Order: 180,
		Doc:  "the Python processes of the job",
		Rows: func(b *model.Batch) any { return &b.Processes },
		Key:  "pid, start_ticks", Kept: true,
		Columns: columns(
			pid(&r.PID),
			number("start_ticks", &r.StartTicks, "start of the process, clock ticks since boot"),
			numberOr("ppid", &r.PPID, 0, "process id of the parent"),
			numberOr("parent", &r.Parent, 0, "process id of the Python process that forked it; NULL if none"),
			rank(&r.Rank),
			numberOr("local_rank", &r.LocalRank, -1, "rank on this machine; NULL while unknown"),
			numberOr("world_size", &r.World, -1, "number of ranks; NULL while unknown"),
			atOr("started", &r.Started, 0, "time (UTC)"),
			atOr("ended", &r.Ended, model.Null, "time (UTC); NULL while it lives"),
			text("ending", &r.End, "'', exited, detached, or vanished (killed, or left without a word)"),
			text("argv", &r.Argv, "command line"),
			text("cwd", &r.Cwd, "working directory"),
			text("executable", &r.Executable, "Python's path"),
			text("python", &r.Python, "Python's version"),
			text("agent", &r.Agent, "content hash of the agent"),
		),
	}
})
