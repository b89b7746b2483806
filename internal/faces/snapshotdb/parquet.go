package snapshotdb

import (
	"bytes"
	"context"
	"io"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/record/store"
)

// ErrNoTable means that a query names an unknown table.
var ErrNoTable = store.ErrNoTable

// WriteParquet writes the events of a snapshot as Parquet: DuckDB makes the file from JSON lines.
func WriteParquet(ctx context.Context, w io.Writer, s *snapshot.Snapshot) error {
	var lines bytes.Buffer
	if err := snapshot.WriteLines(&lines, s); err != nil {
		return err
	}
	return store.ParquetOfLines(ctx, &lines, lineColumns, w)
}

// lineColumns are the members of snapshot's JSON lines.
var lineColumns = []store.LineColumn{
	{Name: "action", Type: "VARCHAR"}, {Name: "device", Type: "INTEGER"}, {Name: "addr", Type: "UBIGINT"},
	{Name: "size", Type: "BIGINT"},
	{Name: "stream", Type: "UBIGINT"}, {Name: "time_us", Type: "BIGINT"}, {Name: "thread", Type: "UBIGINT"},
	{Name: "device_free", Type: "BIGINT"},
	{Name: "frames", Type: "VARCHAR[]"}, {Name: "compile_context", Type: "VARCHAR"},
	{Name: "user_metadata", Type: "VARCHAR"},
}
