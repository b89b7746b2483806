package store

import (
	"context"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// Tables describes the tables that users query; with all, the physical tables behind them too.
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
	sql := "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() " +
		"WHERE NOT internal AND database_name = current_database()" // a lake's views are in another one too
	if !all {
		sql += " AND schema_name NOT IN ('store', 'main')"
	}
	var about *table.Table
	err = c.all(sql+" ORDER BY schema_name = 'store', schema_name DESC, table_name, column_index", func(v []any) {
		schema, name := v[0].(string), v[1].(string)
		if n := len(list); n == 0 || list[n-1].Schema != schema || list[n-1].Name != name {
			list = append(list, model.Table{Schema: schema, Name: name})
			list[n].Doc, about = describe(schema, name)
		}
		column := model.ColumnDoc{Name: v[2].(string), Type: shownType(v[3].(string))}
		if about != nil {
			column.Doc = about.ColumnDoc(column.Name, schema == "store")
		}
		t := &list[len(list)-1]
		t.Columns = append(t.Columns, column)
	})
	return list, err
}

// describe returns the one-line doc of a table and its description; nil if a newer memgauge made the table.
func describe(schema, name string) (doc string, t *table.Table) {
	if t = table.Find(schema + "." + name); t != nil {
		doc = t.DocOf(schema == "store")
	}
	return doc, t
}

// shownType is the name of a column's type. A column with a fixed list of values behaves as a text does, and the list
// may be long.
func shownType(typ string) string {
	if strings.HasPrefix(typ, "ENUM") {
		return "VARCHAR"
	}
	return typ
}

// countRows fills in the numbers of rows, which DuckDB has in its metadata.
func countRows(c *conn, list []model.Table) error {
	var parts []string
	for i, t := range list {
		if t.Name == "backtrace" {
			list[i].Rows = -1 // unknown: the table is filled anew for each query of it
			continue
		}
		parts = append(parts, "SELECT "+itoa(int64(i))+"::BIGINT, count(*) FROM "+t.Schema+"."+t.Name)
	}
	if len(parts) == 0 {
		return nil
	}
	return c.all(strings.Join(parts, " UNION ALL "), func(v []any) { list[v[0].(int64)].Rows = v[1].(int64) })
}
