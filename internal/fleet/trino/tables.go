package trino

import (
	"context"
	"fmt"
	"slices"
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

// kept is a table of the server's over the hours of one of ours: rows of any job, or those that a memgauge before kept
// by job. Both lie in the same directory, and the view that people ask has the rows of both.
type kept struct {
	of   *table.Table
	keys []string // partition columns; the last one is not shown
}

// keptOf are those of a table. The name of the latter is that which it had before there was the former.
func keptOf(t *table.Table) []kept {
	return []kept{{t, []string{"date", "hour", "tier"}}, {t, []string{"job", "date", "hour", "tier"}}}
}

func (k kept) byJob() bool { return k.keys[0] == "job" }

func (k kept) name() string {
	if k.byJob() {
		return k.of.Store
	}
	return k.of.Store + "_hours"
}

// values are a partition's, by the keys; false for one of another table.
func (k kept) values(p lake.Partition) (values [4]string, ok bool) {
	of := map[string]string{"job": p.Job, "date": p.Date, "hour": p.Hour, "tier": p.Tier}
	for i, name := range k.keys {
		values[i] = of[name]
	}
	return values, p.Table == k.of && (p.Job != "") == k.byJob()
}

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
		var there []kept
		for _, k := range keptOf(t) {
			if have[k.name()] || slices.ContainsFunc(byTable[t], func(p lake.Partition) bool {
				_, ok := k.values(p)
				return ok
			}) {
				there = append(there, k)
			}
		}
		if err := c.define(ctx, t, there, s.Seen); err != nil {
			return done, fmt.Errorf("define %s: %w", t.View, err)
		}
		done.Tables++
		for _, k := range there {
			if err := c.partitions(ctx, k, byTable[t], s.Seen, &done); err != nil {
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

// define makes the tables over the files, and the views that people ask: under its name, and in schema global.
func (c *Client) define(ctx context.Context, t *table.Table, there []kept, seen string) error {
	for _, k := range there {
		if err := c.exec(ctx, k.sql(seen)); err != nil {
			return err
		}
	}
	schema, name, _ := strings.Cut(t.View, ".")
	names := []string{quote(schema) + "." + quote(name)}
	if bareNames()[name] == 1 {
		names = append(names, `"global".`+quote(name))
	}
	for _, full := range names {
		if err := c.exec(ctx, "CREATE OR REPLACE VIEW "+full+" AS "+viewSQL(t, there)); err != nil {
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

// sql makes the table.
func (k kept) sql(seen string) string {
	var columns []string
	for _, c := range lake.Columns(k.of) {
		if !slices.Contains(k.keys, c.Name) {
			columns = append(columns, quote(c.Name)+" "+types[c.Type])
		}
	}
	for _, name := range k.keys {
		columns = append(columns, quote(name)+" varchar")
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS store.%s (%s) WITH (external_location = %s, format = 'PARQUET', "+
		"partitioned_by = ARRAY['%s'])", quote(k.name()), strings.Join(columns, ", "), literal(at(seen, k.of.Store)),
		strings.Join(k.keys, "', '"))
}

// viewSQL is the SELECT of a view; that of a table without files gives no rows, of the same types.
func viewSQL(t *table.Table, there []kept) string {
	var columns, typed, parts []string
	for _, c := range lake.Columns(t) {
		columns = append(columns, quote(c.Name))
		typed = append(typed, "CAST(NULL AS "+types[c.Type]+") AS "+quote(c.Name))
	}
	for _, k := range there {
		parts = append(parts, "SELECT "+strings.Join(columns, ", ")+" FROM store."+quote(k.name()))
	}
	if len(parts) == 0 {
		return "SELECT " + strings.Join(typed, ", ") + " WHERE false"
	}
	return strings.Join(parts, " UNION ALL ")
}

// at is a directory of the lake as the server sees it.
func at(seen, dir string) string {
	if strings.HasSuffix(seen, "/") {
		return seen + dir
	}
	return seen + "/" + dir
}

// partitions registers those that are current, and forgets the others.
func (c *Client) partitions(ctx context.Context, k kept, want []lake.Partition, seen string, done *Done) error {
	missing := map[[4]string]string{}
	for _, p := range want {
		if values, ok := k.values(p); ok {
			missing[values] = p.Dir
		}
	}
	rows, err := c.rows(ctx, "SELECT "+strings.Join(k.keys, ", ")+" FROM store."+quote(k.name()+"$partitions"))
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
		if err := c.exec(ctx, call("unregister_partition", k, key, "")); err != nil {
			return err
		}
		done.Removed++
	}
	for key, dir := range missing {
		if err := c.exec(ctx, call("register_partition", k, key, at(seen, dir))); err != nil {
			return err
		}
		done.Added++
	}
	return nil
}

func call(procedure string, k kept, key [4]string, location string) string {
	values := make([]string, len(k.keys))
	for i := range values {
		values[i] = literal(key[i])
	}
	sql := fmt.Sprintf("CALL system.%s(schema_name => 'store', table_name => %s, partition_columns => ARRAY['%s'], "+
		"partition_values => ARRAY[%s]", procedure, literal(k.name()), strings.Join(k.keys, "', '"),
		strings.Join(values, ", "))
	if location != "" {
		sql += ", location => " + literal(location)
	}
	return sql + ")"
}
