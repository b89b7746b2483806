package table

import (
	"fmt"
	"strings"
)

// ViewSQL makes the view as it is since migration n; "" for a table that nobody asks.
func (t *Table) ViewSQL(n int) string {
	if t.View == "" || t.Since > n {
		return ""
	}
	var columns []string
	for _, c := range t.Columns {
		switch {
		case c.Name == "" || c.Since > n:
		case c.As == "":
			columns = append(columns, c.Name)
		default:
			columns = append(columns, c.As+" AS "+c.Name)
		}
	}
	return fmt.Sprintf("CREATE OR REPLACE VIEW %s AS SELECT %s FROM store.%s;", t.View, strings.Join(columns, ", "),
		t.Store)
}

// Latest is the newest migration that the descriptions name; 0 if none does.
func Latest() (n int) {
	for _, t := range All {
		n = max(n, t.Since)
		for _, c := range t.Columns {
			n = max(n, c.Since)
		}
	}
	return n
}

// Migration is the SQL of what the descriptions say is there since migration n: tables and columns, and the views that
// show them. The database remembers a digest of the first, so it must not change once a release has run it: a column
// keeps its place in time (Since), its name and its type. A view may change with any migration.
func Migration(n int) (tables, views string) {
	var sql []string
	for _, t := range All {
		touched := t.Since == n
		if touched {
			if schema, _, ok := strings.Cut(t.View, "."); ok {
				sql = append(sql, "CREATE SCHEMA IF NOT EXISTS "+schema+";")
			}
			sql = append(sql, t.create())
		}
		for _, c := range t.Columns {
			if c.Since != n || c.Since <= t.Since {
				continue
			}
			touched = true
			if c.Stored != "" {
				sql = append(sql, fmt.Sprintf("ALTER TABLE store.%s ADD COLUMN %s %s;", t.Store, c.Stored,
					c.StoredType))
			}
		}
		if touched {
			views += t.ViewSQL(n) + "\n"
		}
	}
	return strings.Join(sql, "\n"), views
}

// create makes the stored table with the columns that it began with.
func (t *Table) create() string {
	var columns []string
	for _, c := range t.Columns {
		if c.Stored != "" && c.Since <= t.Since {
			columns = append(columns, c.Stored+" "+c.StoredType)
		}
	}
	return fmt.Sprintf("CREATE TABLE store.%s (%s);", t.Store, strings.Join(columns, ", "))
}
