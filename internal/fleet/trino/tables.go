package trino

import (
	"context"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// Sync makes the server see a lake as it is now.
type Sync struct {
	Lake string // where we see the lake: a directory, or s3://BUCKET/PREFIX
	Seen string // where the server sees it, such as local:///; "": the same
}

// Done is what a Sync did.
type Done struct{ Tables, Added, Removed int }

// keys are a lake's partition columns; the last one is not shown.
var keys = []string{"job", "date", "hour", "tier"}

// types are Trino's words for DuckDB's.
var types = map[string]string{"BIGINT": "bigint", "INTEGER": "integer", "DOUBLE": "double", "BOOLEAN": "boolean",
	"VARCHAR": "varchar", "TIMESTAMP": "timestamp(6)"}

// Sync defines the tables that have files and views of all tables, and registers exactly the partitions that are
// current. Of an hour that was merged the old files go before the new ones come: a question in between may miss it for
// some milliseconds, and never sees a row twice.
func (c *Client) Sync(ctx context.Context, s Sync) (done Done, err error) {
	current, err := lake.Partitions(ctx, s.Lake)
	if err != nil {
		return done, err
	}
	if s.Seen == "" {
		s.Seen = s.Lake
	}
	byTable := map[*table.Table][]lake.Partition{}
	for _, p := range current {
		byTable[p.Table] = append(byTable[p.Table], p)
	}
	have, err := c.defined(ctx)
	if err != nil {
		return done, err
	}
	for _, schema := range append([]string{"store", "global"}, table.Schemas()...) {
		if err := c.exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+quote(schema)); err != nil {
			return done, err
		}
	}
	for _, t := range table.All {
		if t.View == "" {
			continue
		}
		if err := c.define(ctx, t, len(byTable[t]) > 0 || have[t.Store], s.Seen); err != nil {
			return done, fmt.Errorf("define %s: %w", t.View, err)
		}
		done.Tables++
		if len(byTable[t]) > 0 || have[t.Store] {
			if err := c.partitions(ctx, t, byTable[t], s.Seen, &done); err != nil {
				return done, fmt.Errorf("partitions of %s: %w", t.View, err)
			}
		}
	}
	return done, nil
}

// defined are the names of the tables that the server has.
func (c *Client) defined(ctx context.Context) (map[string]bool, error) {
	have := map[string]bool{}
	rows, err := c.rows(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'store'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		name, _ := rows.Values()[0].(string)
		have[name] = true
	}
	return have, rows.Err()
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func literal(s string) string  { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// define makes the table over the files, and the views that people ask: under its name, and in schema global.
func (c *Client) define(ctx context.Context, t *table.Table, files bool, seen string) error {
	if files {
		if err := c.exec(ctx, tableSQL(t, seen)); err != nil {
			return err
		}
	}
	schema, name, _ := strings.Cut(t.View, ".")
	names := []string{quote(schema) + "." + quote(name)}
	if bareNames()[name] == 1 {
		names = append(names, `"global".`+quote(name))
	}
	for _, full := range names {
		if err := c.exec(ctx, "CREATE OR REPLACE VIEW "+full+" AS "+viewSQL(t, files)); err != nil {
			return err
		}
	}
	return nil
}

// bareNames counts tables by their names without schemas.
func bareNames() map[string]int {
	count := map[string]int{}
	for _, v := range table.Views() {
		_, name, _ := strings.Cut(v, ".")
		count[name]++
	}
	return count
}

func tableSQL(t *table.Table, seen string) string {
	var columns []string
	for _, c := range lake.Columns(t) {
		if !c.Key {
			columns = append(columns, quote(c.Name)+" "+types[c.Type])
		}
	}
	for _, k := range keys {
		columns = append(columns, quote(k)+" varchar")
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS store.%s (%s) WITH (external_location = %s, format = 'PARQUET', "+
		"partitioned_by = ARRAY['%s'])", quote(t.Store), strings.Join(columns, ", "), literal(at(seen, t.Store)),
		strings.Join(keys, "', '"))
}

// viewSQL is the SELECT of a view; that of a table without files gives no rows, of the same types.
func viewSQL(t *table.Table, files bool) string {
	var columns []string
	for _, c := range lake.Columns(t) {
		if files {
			columns = append(columns, quote(c.Name))
		} else {
			columns = append(columns, "CAST(NULL AS "+types[c.Type]+") AS "+quote(c.Name))
		}
	}
	if files {
		return "SELECT " + strings.Join(columns, ", ") + " FROM store." + quote(t.Store)
	}
	return "SELECT " + strings.Join(columns, ", ") + " WHERE false"
}

// at is a directory of the lake as the server sees it.
func at(seen, dir string) string {
	if strings.HasSuffix(seen, "/") {
		return seen + dir
	}
	return seen + "/" + dir
}

// partitions registers those that are current, and forgets the others.
func (c *Client) partitions(ctx context.Context, t *table.Table, want []lake.Partition, seen string, done *Done) error {
	missing := map[[4]string]string{}
	for _, p := range want {
		missing[[4]string{p.Job, p.Date, p.Hour, p.Tier}] = p.Dir
	}
	rows, err := c.rows(ctx, "SELECT job, date, hour, tier FROM store."+quote(t.Store+"$partitions"))
	if err != nil {
		return err
	}
	defer rows.Close()
	var gone [][4]string
	for rows.Next() {
		var key [4]string
		for i, v := range rows.Values() {
			key[i], _ = v.(string)
		}
		if _, ok := missing[key]; ok {
			delete(missing, key)
		} else {
			gone = append(gone, key)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, key := range gone {
		if err := c.exec(ctx, call("unregister_partition", t, key, "")); err != nil {
			return err
		}
		done.Removed++
	}
	for key, dir := range missing {
		if err := c.exec(ctx, call("register_partition", t, key, at(seen, dir))); err != nil {
			return err
		}
		done.Added++
	}
	return nil
}

func call(procedure string, t *table.Table, key [4]string, location string) string {
	values := make([]string, len(key))
	for i, v := range key {
		values[i] = literal(v)
	}
	sql := fmt.Sprintf("CALL system.%s(schema_name => 'store', table_name => %s, partition_columns => ARRAY['%s'], "+
		"partition_values => ARRAY[%s]", procedure, literal(t.Store), strings.Join(keys, "', '"),
		strings.Join(values, ", "))
	if location != "" {
		sql += ", location => " + literal(location)
	}
	return sql + ")"
}
