package store

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// A database may come from elsewhere. The gate judges what is asked, but DuckDB binds more than that: the body of a
// view, a macro that hides a function of the same name, a default, a generated column. So a database is used only if
// all of its catalog is what a memgauge has made, by DuckDB's own rendering of it. Nothing is bound before: the listing
// names its functions in full (system.main), so that the file can't replace them, and calls nothing in expressions.

// catalogSQL lists all that a file can bring along. It goes by the database: files themselves say what is "internal".
// Types are left out: they hold no expressions, and every file lists DuckDB's own.
var catalogSQL = [][2]string{
	{"schema", "schema_name FROM system.main.duckdb_schemas()"},
	{"table", "schema_name, table_name, sql FROM system.main.duckdb_tables()"},
	{"view", "schema_name, view_name, sql FROM system.main.duckdb_views()"},
	{"index", "schema_name, index_name, sql FROM system.main.duckdb_indexes()"},
	{"sequence", "schema_name, sequence_name, sql FROM system.main.duckdb_sequences()"},
	{"macro", "schema_name, function_name, parameters, macro_definition FROM system.main.duckdb_functions()"},
}

// item is one entry of a catalog.
type item struct{ kind, name, text string }

// catalogOf lists the catalog of the file that is open, in an order of its own.
func catalogOf(c *conn) (items []item, err error) {
	for _, q := range catalogSQL {
		err := c.all("SELECT "+q[1]+" WHERE database_name <> 'system' AND database_name <> 'temp'", func(v []any) {
			x := item{kind: q[0], name: fmt.Sprint(v[0])}
			if len(v) > 1 {
				x.name, x.text = fmt.Sprintf("%v.%v", v[0], v[1]), fmt.Sprint(v[2:]...)
			}
			if !strings.Contains(x.text, "\x00") { // which would end an alias before its end
				x.text = withoutValues(x.text)
			}
			if x != (item{"schema", "main", ""}) { // every file has it
				items = append(items, x)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("list the catalog: %w", err)
		}
	}
	for _, x := range items { // the loop is over those that were there before it
		if x.kind == "table" {
			items = append(items, c.oddColumns(x.name)...)
		}
	}
	order.By(items, func(a, b item) int {
		return strings.Compare(a.kind+a.name+a.text, b.kind+b.name+b.text)
	})
	return items, nil
}

// columnTypes are those of our columns. DuckDB writes only their names into SQL, and the values of enums in quotes.
var columnTypes = []duck.Type{
	duck.TypeBoolean, duck.TypeUSmallInt, duck.TypeInteger, duck.TypeUInteger, duck.TypeBigInt, duck.TypeUBigInt,
	duck.TypeDouble, duck.TypeTimestamp, duck.TypeVarchar, duck.TypeEnum,
}

// oddColumns has an item for each column of a table whose type is none of ours. A type may have an alias. That is any
// text, which DuckDB writes into a table's SQL as it is: what looks like columns there may be a part of it. A table's
// description has the types themselves, and binds no expression.
func (c *conn) oddColumns(table string) (odd []item) {
	schema, name, _ := strings.Cut(table, ".")
	var about duck.TableDescription
	defer duck.TableDescriptionDestroy(&about)
	if duck.TableDescriptionCreate(c.c, schema, name, &about) == duck.StateError {
		return []item{{"table", table, duck.TableDescriptionError(about)}}
	}
	for i := range duck.TableDescriptionGetColumnCount(about) {
		t := duck.TableDescriptionGetColumnType(about, i)
		alias := duck.LogicalTypeGetAlias(t)
		if id := duck.GetTypeId(t); alias != "" || !slices.Contains(columnTypes, id) {
			column := table + "." + duck.TableDescriptionGetColumnName(about, i)
			odd = append(odd, item{"column", column, fmt.Sprint(id, alias)})
		}
		duck.DestroyLogicalType(&t)
	}
	return odd
}

// withoutValues writes VARCHAR for each list of values in a type (ENUM('a', 'b')): a snapshot's are its own.
func withoutValues(sql string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(sql, "ENUM('")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString("VARCHAR")
		rest = "'" + rest
		for strings.HasPrefix(rest, "'") { // a value, in which '' is a quote
			_, rest, _ = strings.Cut(rest[1:], "'")
			if !strings.HasPrefix(rest, "'") {
				rest = strings.TrimPrefix(rest, ", ")
			}
		}
		sql = strings.TrimPrefix(rest, ")")
	}
}

func digest(items []item) string {
	h := sha256.New()
	for _, x := range items {
		fmt.Fprintf(h, "%q %q %q\n", x.kind, x.name, x.text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// catalogs.txt has a line for every catalog that a memgauge has made: what it is, its version, the digest. Lines stay,
// since databases do.
//
//go:generate go test -run TestCatalogsAreListed -update .
//go:embed catalogs.txt
var catalogList string

// made reports whether a session's or a snapshot's catalog is one that a memgauge makes.
func made(what string, items []item) bool {
	sum := digest(items)
	for line := range strings.Lines(catalogList) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == what && f[2] == sum {
			return true
		}
	}
	return false
}

// reviewSession refuses a database whose catalog no memgauge has made. An empty one is about to become a session's.
func reviewSession(c *conn, tempDir string, all []migration) error {
	items, err := catalogOf(c)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return nil
	}
	if made("session", items) {
		return reviewViews(c, items)
	}
	newest, err := sessionCatalog(tempDir, all) // of a build whose catalog is not in the list yet, say
	if err != nil {
		return err
	}
	if slices.Equal(items, newest) {
		return reviewViews(c, items)
	}
	isRecord := func(x item) bool { return x.kind == "table" && x.name == "store.migrations" }
	at := slices.IndexFunc(newest, isRecord)
	if at < 0 || !slices.Contains(items, newest[at]) {
		return &Error{Msg: "it is a DuckDB database, but no session's", Kind: ErrEdited}
	}
	have, err := recorded(c) // safe to read: the table is as we make it
	if err == nil {
		err = compare(have, all)
	}
	if err != nil {
		return err
	}
	return foreign(items, newest)
}

// viewTypes are the types that a view's columns may have, by what their description says. A list of values is text.
var viewTypes = map[string][]duck.Type{"BOOLEAN": {duck.TypeBoolean}, "USMALLINT": {duck.TypeUSmallInt},
	"INTEGER": {duck.TypeInteger}, "UINTEGER": {duck.TypeUInteger}, "BIGINT": {duck.TypeBigInt},
	"UBIGINT": {duck.TypeUBigInt}, "DOUBLE": {duck.TypeDouble}, "TIMESTAMP": {duck.TypeTimestamp},
	"VARCHAR": {duck.TypeVarchar, duck.TypeEnum}}

// reviewViews refuses a view whose text is ours and whose tree is not. DuckDB writes a type in it by its alias, as it
// is, so that CAST(1.0 AS DOUBLE) may be one to any type, and an alias may hide what the text says behind it. Only what
// the view gives tells: each of its columns has the type of ours. Its functions are those that the text names.
func reviewViews(c *conn, items []item) error {
	for _, x := range items {
		if x.kind != "view" {
			continue
		}
		if odd := c.oddView(x.name); odd != "" {
			return remedy.Add(&Error{Msg: fmt.Sprintf("its view %s is not as memgauge made it: %s", x.name, odd),
				Kind: ErrEdited}, foreignHint)
		}
	}
	return nil
}

// oddView says what a view has that ours has not; "" for nothing.
func (c *conn) oddView(name string) string {
	of := table.Find(name)
	if of == nil || of.View != name {
		return "there is no such view"
	}
	var stmt duck.PreparedStatement
	defer duck.DestroyPrepare(&stmt)
	if duck.Prepare(c.c, "SELECT * FROM "+name, &stmt) == duck.StateError {
		return firstLine(duck.PrepareError(stmt))
	}
	for i := range duck.PreparedStatementColumnCount(stmt) {
		column := duck.PreparedStatementColumnName(stmt, i)
		at := slices.IndexFunc(of.Columns, func(x table.Column) bool { return x.Name == column })
		t := duck.PreparedStatementColumnLogicalType(stmt, i)
		alias, id := duck.LogicalTypeGetAlias(t), duck.GetTypeId(t)
		duck.DestroyLogicalType(&t)
		if at < 0 || alias != "" || !slices.Contains(viewTypes[of.Columns[at].Type], id) {
			return fmt.Sprintf("the type of its column %.100q", column)
		}
	}
	return ""
}

// reviewSnapshot is the same for a snapshot's database.
func reviewSnapshot(c *conn) error {
	items, err := catalogOf(c)
	if err != nil || made("snapshot", items) {
		return err
	}
	return remedy.Add(&Error{Msg: "its tables are not those of this memgauge", Kind: ErrEdited},
		"it is made again from the snapshot")
}

const foreignHint = "another program has changed the file: copy its tables into a new one with DuckDB, if you trust it"

// foreign names the first entry that is not in the newest catalog; all may be, and others be missing.
func foreign(items, newest []item) error {
	what := "lacks something"
	for _, x := range items {
		if !slices.Contains(newest, x) {
			what = fmt.Sprintf("has the %s %s", x.kind, x.name)
			break
		}
	}
	return remedy.Add(&Error{Msg: "its catalog " + what + " that is not as memgauge made it", Kind: ErrEdited},
		foreignHint)
}

// sessionCatalog is the catalog that migrations make. It is read from a file in dir, since DuckDB renders some of what
// it has parsed differently from what it has read (CAST(a AS "DOUBLE")).
func sessionCatalog(dir string, all []migration) (items []item, err error) {
	path := filepath.Join(dir, "catalog.duckdb")
	defer func() { _ = rootdir.Remove(path) }()
	o := Options{Path: path, TempDir: dir}.withDefaults()
	err = onFile(o, func(c *conn) error {
		for _, m := range all {
			if err := m.run(c); err != nil {
				return fmt.Errorf("migration %s: %w", m.name, err)
			}
		}
		return nil
	})
	if err == nil {
		err = onFile(o, func(c *conn) (err error) {
			items, err = catalogOf(c)
			return err
		})
	}
	return items, err
}

// onFile opens a file for a piece of work.
func onFile(o Options, work func(*conn) error) error {
	e := &engine{}
	if err := e.open(o); err != nil {
		return err
	}
	defer e.close()
	return withOne(context.Background(), e, work)
}
