package store

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// LineColumn is a member of JSON lines and the type that it has in Parquet.
type LineColumn struct{ Name, Type string }

// ParquetOfLines writes JSON lines as a Parquet file with the given columns. It uses a temporary database in memory.
func ParquetOfLines(ctx context.Context, lines io.Reader, columns []LineColumn, w io.Writer) error {
	dir, err := rootdir.Temp("", "memgauge-parquet-")
	if err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	defer func() { _ = dir.Discard() }()
	const in, made = "lines.jsonl", "lines.parquet"
	err = dir.Make(in, func(f *os.File) error {
		_, err := io.Copy(f, lines)
		return err
	})
	if err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	at := dir.Path()
	if err := copyLines(ctx, filepath.Join(at, in), filepath.Join(at, made), columns, at); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	if err := sendFile(w, dir, made); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

func copyLines(ctx context.Context, in, made string, columns []LineColumn, dir string) error {
	o := Options{outside: true, TempDir: dir}.withDefaults()
	e := &engine{}
	if err := e.open(o); err != nil {
		return err
	}
	defer duck.Close(&e.db)
	c, err := e.connect()
	if err != nil {
		return err
	}
	defer c.close()
	defer c.interruptOn(ctx, nil)()
	types := make([]string, len(columns))
	for i, k := range columns {
		types[i] = k.Name + ": " + quote(k.Type)
	}
	return c.exec("COPY (FROM read_json(" + quote(in) + ", format = 'newline_delimited', columns = {" +
		strings.Join(types, ", ") +
		"})) TO " + quote(made) + " (FORMAT parquet, COMPRESSION zstd)")
}
