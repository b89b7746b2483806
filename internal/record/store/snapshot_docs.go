package store

import "github.com/memgauge/memgauge/internal/formats/model"

// snapshotTables describes the tables of memory snapshots, in the order in which they are listed.
func snapshotTables(c *conn, all bool) (list []model.Table, err error) {
	sql := "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
	if !all {
		sql += " AND schema_name <> 'store'"
	}
	err = c.all(sql+" ORDER BY schema_name, table_name, column_index", func(v []any) {
		schema, name := v[0].(string), v[1].(string)
		if n := len(list); n == 0 || list[n-1].Schema != schema || list[n-1].Name != name {
			list = append(list, model.Table{Schema: schema, Name: name, Doc: snapshotTableDocs[name]})
			if schema == "store" {
				list[n].Doc = "behind frames"
				if name == "about" {
					list[n].Doc = "the version of these tables, and what is missing"
				}
			}
		}
		t := &list[len(list)-1]
		t.Columns = append(t.Columns, snapshotColumn(name, v[2].(string), v[3].(string)))
	})
	if err != nil {
		return nil, err
	}
	if err := countRows(c, list); err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.Name == "blocks" { // a macro is in no list of columns
			t.Name, t.Rows, t.Doc = "live_at(seq)", -1,
				"the rows of blocks that were live on an event's device after it: FROM live_at(1234)"
			return append(list, t), nil
		}
	}
	return list, nil
}

func snapshotColumn(table, name, typ string) model.ColumnDoc {
	if len(typ) > 4 && typ[:4] == "ENUM" {
		typ = "VARCHAR" // that is how it behaves, and the list of values is long
	}
	doc, ok := snapshotColumnDocs[table+"."+name]
	if !ok {
		doc = snapshotColumnDocs[name]
	}
	return model.ColumnDoc{Name: name, Type: typ, Doc: doc}
}

var snapshotTableDocs = map[string]string{
	"events":         "a row for each thing that an allocator did, in the order of the file, device by device",
	"blocks":         "a row for each allocation, from its beginning to its end",
	"segments":       "what the allocators had from the driver at the end",
	"segment_blocks": "what the segments were made of at the end",
	"stacks":         "the stacks that rows name",
	"frames":         "the frames of the stacks",
	"annotations":    "what the program has marked (record_function)",
	"iterations":     "training steps, as far as they can be told apart",
	"settings":       "of the allocator",
}

var snapshotColumnDocs = map[string]string{
	"seq":                   "number of the event, from 0; that of a device are in the order of time",
	"ts":                    "time (UTC, to the µs); NULL where the file does not say",
	"device":                "number of the device",
	"stream":                "the stream's handle; 0 is the default stream",
	"action":                "alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, snapshot, oom, annotate, or what else the file has",
	"addr":                  "address of the block or segment; NULL for an oom",
	"address":               "where it begins",
	"size":                  "bytes; of a block what the program asked for",
	"blocks.size":           "bytes that the block takes: as the file says for those at the end, else requested rounded up to 512",
	"segments.size":         "bytes",
	"segment_blocks.size":   "bytes",
	"requested":             "bytes that the program asked for",
	"segments.requested":    "bytes that the program asked for, of its blocks; 0 where the file does not say",
	"stack_id":              "number of the stack in stacks and frames; 0 is the empty one",
	"category":              "what the block is for: parameters, gradients, optimizer state, activations, temporaries, unknown; of events for alloc and free_completed",
	"iteration":             "number of the training step in which it was allocated, from 0; NULL before the first, or where there are none",
	"events.iteration":      "number of the training step, from 0; NULL before the first, or where there are none",
	"iterations.iteration":  "number of the training step on its device, from 0",
	"live_after":            "bytes that the program held on the device after the event",
	"iterations.live_after": "bytes that the program held after the last event",
	"reserved_after":        "bytes that the allocator had from the driver after the event",
	"device_free":           "bytes that the driver still had, at an oom",
	"pool":                  "private pool (CUDA graphs, torch.cuda.MemPool); NULL for the one that all programs use",
	"compile_context":       "torch.compile's name for the graph",
	"user_metadata":         "what the program attached",
	"alloc_seq":             "event that allocated it; NULL for what is older than the history",
	"free_seq":              "event that ended it (free_completed); NULL for what was live at the end",
	"alloc_ts":              "time of alloc_seq",
	"free_ts":               "time of free_seq",
	"lifetime_us":           "from alloc_ts to free_ts, in µs; NULL where one is missing",
	"site":                  "file:line function of your innermost frame, else of another one; NULL without a stack",
	"path":                  "the functions of your own frames, outermost first",
	"segment_id":            "number of the segment",
	"allocated":             "bytes in blocks that the program held",
	"active":                "the same and blocks that waited for a stream, in bytes",
	"kind":                  "small or large",
	"expandable":            "whether memory can be mapped behind it (expandable_segments)",
	"state":                 "active_allocated, active_pending_free (freed, still used by a stream) or inactive",
	"depth":                 "0 is the innermost call",
	"stacks.depth":          "how many frames it has",
	"func":                  "function",
	"file":                  "source file",
	"lineno":                "line",
	"own":                   "whether it is your own Python: no library",
	"frame":                 "number of the frame",
	"stage":                 "START or END",
	"name":                  "what was marked",
	"settings.name":         "as PyTorch calls it",
	"about.name":            "of what",
	"value":                 "as a text; nested settings as JSON",
	"about.value":           "as a text",
	"first_seq":             "its first event",
	"last_seq":              "its last event",
	"first_ts":              "time of first_seq",
	"last_ts":               "time of last_seq",
	"floor":                 "fewest bytes that the program held in it",
	"peak":                  "most bytes that the program held in it",

	"segment_blocks.requested": "bytes that the program asked for; NULL where it is free",
}
