package store

import (
	"context"
	"strings"

	"github.com/memgauge/memgauge/internal/model"
)

// Tables describes the tables that users ask; with all, the physical ones behind them too.
func (db *DB) Tables(ctx context.Context, all bool) (list []model.Table, err error) {
	err = db.read(ctx, func(c *conn) error {
		if db.o.snapshot {
			list, err = snapshotTables(c, all)
			return err
		}
		list, err = columnsOf(c, all)
		if err == nil {
			err = countRows(c, list)
		}
		return err
	})
	return list, db.about("list the tables of", err)
}

// columnsOf lists tables by schema and name, each with its columns in order.
func columnsOf(c *conn, all bool) (list []model.Table, err error) {
	sql := "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
	if !all {
		sql += " AND schema_name NOT IN ('store', 'main')"
	}
	err = c.all(sql+" ORDER BY schema_name = 'store', schema_name DESC, table_name, column_index", func(v []any) {
		schema, name := v[0].(string), v[1].(string)
		if n := len(list); n == 0 || list[n-1].Schema != schema || list[n-1].Name != name {
			list = append(list, model.Table{Schema: schema, Name: name, Doc: tableDoc(schema + "." + name)})
		}
		t := &list[len(list)-1]
		t.Columns = append(t.Columns, columnDoc(t, v[2].(string), v[3].(string)))
	})
	return list, err
}

func tableDoc(table string) string {
	if doc, ok := tableDocs[table]; ok {
		return doc
	}
	return sampleDoc(table)
}

// columnDoc finds a column's line: its table's own, or the one that all tables share.
func columnDoc(t *model.Table, name, typ string) model.ColumnDoc {
	if strings.HasPrefix(typ, "ENUM") {
		typ = "VARCHAR" // that is how it behaves, and the list of values is long
	}
	if doc := sampleColumnDoc(t.Schema+"."+t.Name, name); doc != "" {
		return model.ColumnDoc{Name: name, Type: typ, Doc: doc}
	}
	if doc, ok := findingDocs[name]; ok && t.Name == "findings" {
		return model.ColumnDoc{Name: name, Type: typ, Doc: doc}
	}
	doc, ok := columnDocs[t.Schema+"."+t.Name+"."+name]
	if !ok {
		doc = columnDocs[name]
	}
	return model.ColumnDoc{Name: name, Type: typ, Doc: doc}
}

// countRows fills in the rows: DuckDB takes counts from its metadata.
func countRows(c *conn, list []model.Table) error {
	var parts []string
	for i, t := range list {
		if t.Name == "backtrace" {
			list[i].Rows = -1 // what it holds is what the last one saw who asked
			continue
		}
		parts = append(parts, "SELECT "+itoa(int64(i))+"::BIGINT, count(*) FROM "+t.Schema+"."+t.Name)
	}
	if len(parts) == 0 {
		return nil
	}
	return c.all(strings.Join(parts, " UNION ALL "), func(v []any) { list[v[0].(int64)].Rows = v[1].(int64) })
}

// tableDocs has one line for each table.
var tableDocs = map[string]string{
	"python.torch_trace":  "a row for each observed stage of a module or an optimizer, on sampled steps",
	"python.steps":        "every step of every training process, with its memory",
	"python.step_devices": "every device's allocator at the end of each step",
	"python.tensors":      "live tensors by holder, age and site, as a census saw them",
	"python.objects":      "what else a census saw: growth of types and containers, graphs, cycles …",
	"python.backtrace":    "every thread's Python stack, taken at the moment of the SELECT",
	"memgauge.events":     "what happened once: start, fork, eval, rank, exit …",
	"memgauge.findings":   "verdicts on each memory, with their evidence",
	"memgauge.overhead":   "what observing cost, by part",
	"memgauge.drops":      "records that are not in the tables: how many, where, why",
	"memgauge.processes":  "the Python processes of the job",
	"store.trace":         "behind python.torch_trace, in bytes and ns",
	"store.steps":         "behind python.steps",
	"store.step_devices":  "behind python.step_devices",
	"store.events":        "behind memgauge.events",
	"store.findings":      "behind memgauge.findings",
	"store.overhead":      "behind memgauge.overhead",
	"store.backtrace":     "behind python.backtrace",
	"store.tensors":       "behind python.tensors",
	"store.objects":       "behind python.objects",
	"store.drops":         "behind memgauge.drops",
	"store.processes":     "behind memgauge.processes",
	"store.names":         "texts that rows share, numbered",
	"store.cursors":       "how much of each ring is stored",
	"store.retention":     "how far old rows were thinned",
	"store.migrations":    "the schema's history",
}

// columnDocs has a line for each column, by name, or by table and name where tables differ.
var columnDocs = map[string]string{
	"timestamp":      "µs since the epoch",
	"ts":             "time (UTC, to the µs)",
	"pid":            "process id",
	"rank":           "rank in the distributed job; NULL while unknown",
	"world_size":     "number of ranks; NULL while unknown",
	"step":           "number of the step in its process, from 1",
	"local_step":     "the same as step",
	"global_step":    "the same as step: each rank counts its own",
	"micro_step":     "forward passes begun in the step before this one, from 0",
	"seq":            "order within the step, from 0",
	"module":         "name in the root's named_modules(); the root and an optimizer go by their class",
	"stage":          "pre forward, post forward, pre step, post step, pre backward, post backward",
	"device":         "cpu or cuda:N",
	"sampled":        "whether module hooks were in during the step",
	"inference":      "whether it is a stretch of forwards without an optimizer",
	"time_offset":    "s since the step's first row",
	"duration":       "s; NULL on pre rows",
	"steps":          "how many steps the row stands for",
	"duration_ns":    "ns",
	"offset_ns":      "ns since the step's first row",
	"allocated":      "bytes in use; host: resident - shared",
	"max_allocated":  "bytes, the highest in the step",
	"reserved":       "bytes that the allocator holds; host: resident",
	"max_reserved":   "bytes, the highest in the step",
	"cached":         "bytes that the allocator holds; host: resident",
	"max_cached":     "bytes, the highest in the step",
	"rss":            "bytes resident",
	"anon":           "bytes resident - shared",
	"max_rss":        "bytes, the highest ever, where it rose in the step; else NULL",
	"heap_in_use":    "bytes that malloc has handed out; NULL where not taken",
	"heap_held":      "bytes that malloc holds from the kernel; NULL where not taken",
	"py_blocks":      "blocks of Python's own allocator; NULL where not taken",
	"gc_collections": "garbage collections since the process started",
	"gc_full":        "collections of the oldest generation since the row before",
	"agent_ns":       "ns that observing took, by the agent's own clock",
	"name":           "name",
	"text":           "details",
	"a":              "a number, by event",
	"b":              "a number, by event",
	"part":           "which part of observing",
	"ns":             "ns that it took",
	"count":          "how often",
	"covered_ns":     "ns of running time that the row covers",
	"share":          "ns / covered_ns",
	"gap":            "one step in so many was sampled; NULL where it has no meaning",
	"measured":       "by comparing sampled with plain steps, not by the agent's clock",
	"source":         "ring file or table",
	"reason":         "overwritten, damaged, unknown kind, thinned, merged, disk limit …",
	"records":        "how many",
	"detail":         "which",
	"start_ticks":    "start of the process, clock ticks since boot",
	"ppid":           "process id of the parent",
	"parent":         "process id of the Python process that forked it; NULL if none",
	"local_rank":     "rank on this machine; NULL while unknown",
	"started":        "time (UTC)",
	"ended":          "time (UTC); NULL while it lives",
	"ending":         "'', exited, detached, or vanished (killed, or left without a word)",
	"argv":           "command line",
	"cwd":            "working directory",
	"executable":     "Python's path",
	"python":         "Python's version",
	"agent":          "content hash of the agent",
	"id":             "number",
	"ring_id":        "the ring's random number",
	"file":           "the ring's file",
	"done":           "whether the ring was read to its end",
	"level":          "1 thinned, 2 merged, 3 dropped",
	"done_until":     "rows before this time were treated",
	"number":         "number of the migration",
	"checksum":       "SHA-256 of its text",

	"census_id":   "number of the census in its process, from 1",
	"shape":       "sizes, outermost first; the most frequent where a group has several, with an ellipsis behind",
	"dtype":       "torch's name without torch.",
	"role":        "tensor, parameter, buffer, optimizer",
	"bytes":       "bytes of memory kept alive, each storage counted once; NULL where not known",
	"fresh":       "how many were not there at the census before; NULL at a process's first census",
	"oldest_step": "last step at the census that saw the oldest of them; NULL where this one was the first to see them",
	"site":        "file:line that makes or keeps them; NULL where not known",
	"holder":      "who holds them: path from a global, a function's local, a thread …; NULL where not known",
	"estimated":   "whether it was counted in a sample and scaled up",
	"evidence":    "type, container, graph, cycle, traceback, hooks, extension, native (docs/census.md)",
	"type":        "module and name of the class",
	"delta":       "length (count where that is NULL) less that of the census before; NULL at a process's first census",
	"length":      "items of a container, nodes of a graph, frames of a traceback; NULL otherwise",

	"allocated_delta":     "bytes against the stage's beginning; NULL on pre rows",
	"max_allocated_delta": "bytes against the stage's beginning; NULL on pre rows",

	"python.torch_trace.allocated":           "MB (2^20 bytes) in use; cpu: resident - shared",
	"python.torch_trace.max_allocated":       "MB, the highest in the step",
	"python.torch_trace.cached":              "MB that the allocator holds; cpu: resident",
	"python.torch_trace.max_cached":          "MB, the highest in the step",
	"python.torch_trace.allocated_delta":     "MB against the stage's beginning; NULL on pre rows",
	"python.torch_trace.max_allocated_delta": "MB against the stage's beginning; NULL on pre rows",
	"python.steps.device":                    "of the devices that were read the fullest (python.step_devices has each); cpu: none was",
	"python.steps.step":                      "number of the (last) step in its process, from 1",
	"python.step_devices.step":               "number of the (last) step in its process, from 1",
	"python.step_devices.device":             "cuda:N",
	"python.step_devices.max_allocated":      "bytes, the highest since the program last reset it",
	"python.step_devices.reserved":           "bytes that the allocator holds there",
	"python.step_devices.max_reserved":       "bytes, the highest since the program last reset it",
	"python.steps.duration":                  "s, of all its steps together; NULL for the very first",
	"tid":                                    "thread id; NULL where Python does not know it",
	"thread":                                 "the thread's name; NULL where Python does not know it",
	"depth":                                  "0 is the innermost call",
	"func":                                   "function; of a kernel frame what the thread is doing",
	"python.backtrace.file":                  "source file; NULL in a kernel frame",
	"lineno":                                 "line that is being executed; NULL in a kernel frame",
	"frame_type":                             "python, or kernel where Python's lock could not be had within 2 s",
	"python.tensors.step":                    "number of the last step that had ended; NULL before the first",
	"python.objects.step":                    "number of the last step that had ended; NULL before the first",
	"python.tensors.device":                  "cpu, cuda:N, or what torch calls it",
	"memgauge.overhead.steps":                "steps in the time covered",
	"store.overhead.steps":                   "steps in the time covered",
	"store.retention.name":                   "table",
}
