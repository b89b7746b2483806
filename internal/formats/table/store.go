package table

import "github.com/memgauge/memgauge/internal/formats/model"

// These tables are memgauge's own: no view shows them.

// Names are the texts that rows share by number; a batch brings the new ones.
var Names = describe(func(r *model.Name) *Table {
	return &Table{
		Store: "names", Order: 240, Doc: "texts that rows share, numbered",
		Kept:    true,
		Columns: columns(number("id", &r.ID, "number"), text("text", &r.Text, "details")),
	}
})

var _ = describe(func(_ *struct{}) *Table {
	return &Table{
		Store: "cursors", Order: 250, Doc: "how much of each ring is stored", Kept: true,
		Columns: columns(
			internal("ring_id", "UBIGINT", "the ring's random number"),
			internal("file", "VARCHAR", "the ring's file"),
			internal("seq", "UBIGINT", "number of the newest record that is stored"),
			internal("done", "BOOLEAN", "whether the ring was read to its end"),
		),
	}
})

var _ = describe(func(_ *struct{}) *Table {
	return &Table{
		Store: "retention", Order: 260, Doc: "how far old rows were thinned", Kept: true,
		Columns: columns(
			internal("name", "VARCHAR", "table"),
			internal("level", "INTEGER", "1 thinned, 2 merged, 3 dropped"),
			internal("done_until", "TIMESTAMP", "rows before this time were treated"),
		),
	}
})

var _ = describe(func(_ *struct{}) *Table {
	return &Table{
		Store: "batches", Order: 265, Doc: "how rows that were appended are numbered", Kept: true, Since: 9,
		Columns: columns(
			internal("opened", "BIGINT", "how often the database was opened for appending"),
		),
	}
})

var _ = describe(func(_ *struct{}) *Table {
	return &Table{
		Store: "migrations", Order: 270, Doc: "the schema's history", Kept: true,
		Columns: columns(
			internal("number", "BIGINT", "number of the migration"),
			internal("name", "VARCHAR", "name"),
			internal("checksum", "VARCHAR", "SHA-256 of its text"),
			internal("ts", "TIMESTAMP", "time (UTC, to the µs)"),
		),
	}
})
