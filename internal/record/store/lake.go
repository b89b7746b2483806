package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// MergeSource is a Parquet file.
type MergeSource struct {
	Path  string
	Where string // which of its rows to take, in SQL; "": all
	Claim *Claim // which must be true, or nil
}

// Merge makes one Parquet file of several.
type Merge struct {
	From        []MergeSource
	To          string
	Columns     []FileColumn // that it has, whatever the files have besides
	Order       []string     // columns that the rows are sorted by
	Widest      int          // if not 0, so many rows alone, those with the longest texts
	RowGroup    int
	TempDir     string // for spilling
	MemoryLimit int64  // bytes, beyond which the sort spills

	Without []string // columns of the files that are not read
	Key     string   // of a value in the file's footer; "": none
	Value   string
}

// spillRoom is what a merge may spill, times its memory: an hour of a thousand nodes has some GB.
const spillRoom = 256

// Spill is what a merge may spill, in bytes. What it makes is less.
func (m Merge) Spill() int64 { return m.MemoryLimit * spillRoom }

// MergeParquet writes the rows of all files, sorted; a column that a file lacks is NULL in its rows. After an error
// CheckParquet tells which of the files it is about. The file is not synced.
func MergeParquet(ctx context.Context, m Merge) error {
	check := func(c *conn) error {
		for _, f := range m.From {
			if err := c.checkClaim(f.Path, f.Claim); err != nil {
				return err
			}
		}
		return nil
	}
	if err := copyTo(ctx, check, m.sql(), m.To, m.TempDir, m.MemoryLimit); err != nil {
		return fmt.Errorf("merge Parquet: %w", err)
	}
	return nil
}

// WriteParquet writes the rows of a statement of ours, that of a benchmark, say.
func WriteParquet(ctx context.Context, sql, to string, rowGroup int, tempDir string) error {
	sound := func(*conn) error { return nil }
	if err := copyTo(ctx, sound, copySQL(sql, to, rowGroup, ""), to, tempDir, defaultMemory); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

func copySQL(sql, to string, rowGroup int, more string) string {
	return "COPY (" + sql + ") TO " + quote(to) + " (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE " +
		itoa(int64(rowGroup)) + more + ")"
}

// copyTo runs a COPY in a database of its own, if check finds nothing against it.
func copyTo(ctx context.Context, check func(*conn) error, sql, to, tempDir string, memory int64) error {
	own, err := newScratch(tempDir)
	if err != nil {
		return err
	}
	defer own.remove()
	e := &engine{}
	o := Options{MemoryLimit: memory, TempDir: own.path, spill: memory * spillRoom, outside: true}
	if err := e.open(o.withDefaults()); err != nil {
		return err
	}
	defer duck.Close(&e.db)
	err = withOne(ctx, e, func(c *conn) error {
		if err := check(c); err != nil {
			return err
		}
		return c.exec(sql)
	})
	if err != nil {
		_ = rootdir.Remove(to)
	}
	return err
}

func (m Merge) sql() string {
	var typed []string
	for _, c := range m.Columns {
		typed = append(typed, c.Name+"::"+c.Type+" AS "+c.Name)
	}
	without, footer := "", ""
	if len(m.Without) > 0 {
		without = " EXCLUDE (" + strings.Join(m.Without, ", ") + ")"
	}
	if m.Key != "" {
		footer = ", KV_METADATA {" + quote(m.Key) + ": " + quote(m.Value) + "}"
	}
	parts, whole := []string{none(m.Columns)}, []string{}
	for _, f := range m.From {
		if f.Where == "" {
			whole = append(whole, quote(f.Path))
			continue
		}
		parts = append(parts, "SELECT *"+without+" FROM "+plainFile(f.Path)+" WHERE "+f.Where)
	}
	if len(whole) > 0 { // as one scan: of each scan the sort keeps blocks of its own, 512 of which take all its memory
		parts = append(parts, "SELECT *"+without+" FROM read_parquet(["+strings.Join(whole, ", ")+
			"], union_by_name = true, hive_partitioning = false)")
	}
	sql := "SELECT " + strings.Join(typed, ", ") + " FROM (" + strings.Join(parts, " UNION ALL BY NAME ") + ")"
	if m.Widest > 0 {
		sql = "SELECT * FROM (" + sql + ") ORDER BY " + m.width() + " DESC LIMIT " + itoa(int64(m.Widest))
	} else if len(m.Order) > 0 {
		sql += " ORDER BY " + strings.Join(m.Order, ", ")
	}
	return copySQL(sql, m.To, m.RowGroup, footer)
}

// width is the length of a row's texts and lists, in SQL.
func (m Merge) width() string {
	parts := []string{"0"}
	for _, c := range m.Columns {
		if c.Type == "VARCHAR" || strings.ContainsAny(c.Type, "[(") {
			parts = append(parts, "coalesce(strlen("+c.Name+"::VARCHAR), 0)")
		}
	}
	return strings.Join(parts, " + ")
}

// none selects no row of the columns.
func none(columns []FileColumn) string {
	typed := make([]string, len(columns))
	for i, c := range columns {
		typed[i] = "NULL::" + c.Type + " AS " + c.Name
	}
	return "SELECT " + strings.Join(typed, ", ") + " WHERE false"
}

// FileView is a view over Parquet files of one shape.
type FileView struct {
	Schema, Name string
	Files        []string
	Columns      []FileColumn // of the view, in order
	Where        string       // which rows of the files, in SQL; "": all

	Odd []BadFile // set by OpenFiles: files that were left out
}

// FileColumn is a column of a FileView. Files that lack it have NULL there.
type FileColumn struct {
	Name, Type string
	Key        bool // it stands in the files' paths (key=value), not in the files; where it is in no path, in the file
}

// inPath says whether a file has the column in its path.
func (c FileColumn) inPath(path string) bool { return c.Key && strings.Contains(path, "/"+c.Name+"=") }

// OpenFiles makes a database in memory that has nothing but views over files, of the lake dir. Columns have the types
// that the views say: files that would change one, or that can't be opened, are left out, and Odd of their view names
// them. Questions can read no other file. The catalog global has the same views, and those whose name no other schema
// has without a schema as well.
func OpenFiles(ctx context.Context, dir string, views []FileView, o Options) (*DB, error) {
	own, err := newScratch(o.TempDir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	o.TempDir, o.Path, o.outside = own.path, "", true
	o = o.withDefaults()
	e := &engine{}
	e.mu.rows = map[*Rows]struct{}{}
	err = e.open(o)
	if err == nil {
		err = withOne(ctx, e, func(c *conn) error { return makeSound(c, views) })
		for _, v := range views {
			o.reads = append(o.reads, v.Files...)
		}
		if err == nil {
			err = e.lockDown(o)
		}
		if err != nil {
			e.close()
		}
	}
	if err != nil {
		own.remove()
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	db := &DB{o: o, scratch: own, files: views}
	db.state.e = e
	return db, nil
}

func makeViews(c *conn, views []FileView) error {
	named := map[string]int{}
	for _, v := range views {
		named[v.Name]++
	}
	if err := c.exec("ATTACH IF NOT EXISTS ':memory:' AS global"); err != nil {
		return err
	}
	for _, v := range views {
		full := v.Schema + "." + v.Name
		sql := "CREATE SCHEMA IF NOT EXISTS " + v.Schema + "; CREATE OR REPLACE VIEW " + full + " AS " + v.sql() +
			"; CREATE SCHEMA IF NOT EXISTS global." + v.Schema + "; CREATE OR REPLACE VIEW global." + full +
			" AS FROM memory." + full
		if named[v.Name] == 1 {
			sql += "; CREATE OR REPLACE VIEW global.main." + v.Name + " AS FROM memory." + full
		}
		if err := c.exec(sql); err != nil {
			return fmt.Errorf("view %s: %w", full, err)
		}
	}
	return nil
}

// sql is the SELECT of a view. A first part without rows gives every column its type, so that files may lack some, and
// so that a view without files is there too.
func (v FileView) sql() string {
	if len(v.Files) == 0 {
		return none(v.Columns)
	}
	var names []string
	for _, c := range v.Columns {
		names = append(names, c.Name)
	}
	byKeys := map[string][]string{} // DuckDB wants files of one scan to have the same
	for _, f := range v.Files {
		keys := "'tier': VARCHAR"
		for _, c := range v.Columns {
			if c.inPath(f) {
				keys += ", " + quote(c.Name) + ": " + c.Type
			}
		}
		byKeys[keys] = append(byKeys[keys], quote(f))
	}
	sql := "SELECT " + strings.Join(names, ", ") + " FROM (" + none(v.Columns)
	for _, keys := range slices.Sorted(maps.Keys(byKeys)) {
		sql += " UNION ALL BY NAME SELECT * FROM read_parquet([" + strings.Join(byKeys[keys], ", ") +
			"], union_by_name = true, hive_partitioning = true, hive_types = {" + keys + "})"
	}
	sql += ")"
	if v.Where != "" {
		sql += " WHERE " + v.Where
	}
	return sql
}
