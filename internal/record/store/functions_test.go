package store

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/allowed"
)

var update = flag.Bool("update", false, "add to functions.txt and catalogs.txt what is new")

// placeSQL lists what the linked DuckDB has, by place.
var placeSQL = map[allowed.Place]string{
	allowed.Expression: "function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'macro')",
	allowed.From:       "function_name FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro')",
	allowed.View:       "view_name FROM duckdb_views() WHERE internal",
	"pragma":           "function_name FROM duckdb_functions() WHERE function_type = 'pragma'",
}

// scratchConn is a connection of a database in memory that nothing locks.
func scratchConn(t testing.TB) *conn {
	t.Helper()
	e := &engine{}
	if err := e.open(Options{TempDir: t.TempDir()}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	c, err := e.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close(); e.close() })
	return c
}

// TestEveryFunctionIsDecided: a function, view or pragma of the linked DuckDB that functions.txt does not decide fails
// here, and so does a decision about one that is gone.
func TestEveryFunctionIsDecided(t *testing.T) {
	c := scratchConn(t)
	list := allowed.Names()
	added := ""
	for at, sql := range placeSQL {
		have := map[string]bool{}
		var fresh []string
		err := c.all("SELECT DISTINCT lower("+strings.Replace(sql, " FROM", ") FROM", 1)+" ORDER BY 1", func(v []any) {
			name := v[0].(string)
			have[name] = true
			if _, ok := list[at][name]; !ok {
				fresh = append(fresh, name)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(fresh) > 0 {
			t.Errorf("functions.txt does not decide, as %s: %v", at, fresh)
			added += fmt.Sprintf("\nrefuse %s: %s\n  %s\n", at, undecided, strings.Join(fresh, " "))
		}
		for name, known := range list[at] {
			if !have[name] && !slices.Contains([]string{"live_at", "unnest", "unlist"}, name) {
				t.Errorf("functions.txt has %s %s, and DuckDB has none", at, name)
			}
			if known.Why == undecided {
				t.Errorf("%s %s waits for a decision", at, name)
			}
		}
	}
	if *update && added != "" {
		const path = "../../formats/allowed/functions.txt"
		old, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(old, added...), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const undecided = "undecided"

// DuckDB's own macros and views are bound as they stand in its catalog: those that are allowed call nothing that is
// refused.
func TestBodiesOfAllowedNames(t *testing.T) {
	c := scratchConn(t)
	type body struct {
		at        allowed.Place
		name, sql string
	}
	var bodies []body
	for at, sql := range map[allowed.Place]string{
		allowed.Expression: "function_name, 'SELECT ' || macro_definition FROM duckdb_functions() " +
			"WHERE function_type = 'macro'",
		allowed.From: "function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'table_macro'",
		allowed.View: "view_name, regexp_replace(sql, '^CREATE .*? AS ', '') FROM duckdb_views() WHERE internal",
	} {
		if err := c.all("SELECT "+sql, func(v []any) {
			bodies = append(bodies, body{at, v[0].(string), v[1].(string)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(bodies) < 100 {
		t.Errorf("only %d bodies", len(bodies))
	}
	for _, b := range bodies {
		err := gateSelect(c, b.sql)
		if err != nil && allowed.Names()[b.at][lowerASCII(b.name)].Allowed {
			t.Errorf("%s %s is allowed, and its body is not: %v\n%s", b.at, b.name, err, b.sql)
		}
	}
}

// list_aggregate takes an aggregate by its name in a text, so each must be harmless.
func TestAggregatesByName(t *testing.T) {
	db := open(t, Options{})
	const aggregates = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
	for _, row := range ask(t, db, aggregates) {
		name := row[0].(string)
		if allowed.Names()[allowed.Expression][name].Allowed {
			continue
		}
		if rows, err := tryAsk(context.Background(), db, "SELECT list_aggregate([1, 2], "+quote(name)+")"); err == nil {
			t.Errorf("the refused aggregate %s ran: %v", name, rows)
		}
	}
}

// Whatever a function's call looks like, the gate sees its name: the forms in which it can stand, with a refused one
// in each.
func TestNamesAreSeenEverywhere(t *testing.T) {
	db := open(t, Options{})
	fillTrace(t, db, 10, 10, -1)
	const call = "nextval('x')"
	for _, form := range []string{
		"SELECT $", "SELECT main.$", "SELECT system.main.$", "SELECT \"NextVal\"('x')", "SELECT nextval ( 'x' )",
		"SELECT /**/nextval/**/('x')", "SELECT ('x').upper().nextval()",
		"SELECT name.nextval() FROM store.names AS n(id, name)", "SELECT $ OVER ()", "SELECT sum($) OVER (ORDER BY $)",
		"SELECT sum(1) FILTER (WHERE $ > 0)", "SELECT sum(1 ORDER BY $)", "SELECT [$ for x in [1, 2]]",
		"SELECT [x for x in [1, 2] if $ > 1]", "SELECT list_transform([1], lambda x: $)",
		"SELECT COLUMNS(lambda c: $ > 0) FROM python.steps", "SELECT * REPLACE ($ AS step) FROM python.steps",
		"SELECT TRY($)", "SELECT CAST($ AS INTEGER)", "SELECT $::TEXT", "SELECT EXTRACT(year FROM to_timestamp($))",
		"SELECT 'a' LIKE 'b' ESCAPE $::TEXT", "SELECT $::TEXT COLLATE de", "SELECT INTERVAL ($) DAY", "SELECT {a: $}",
		"SELECT MAP {1: $}", "SELECT [1, 2][$]", "SELECT [1, 2][1:$]", "SELECT CASE WHEN $ > 1 THEN 1 END",
		"SELECT 1 BETWEEN $ AND 2", "SELECT 1 IN ($, 2)", "SELECT 1 IN (SELECT $)", "SELECT EXISTS (SELECT $)",
		"SELECT 1 = ANY (SELECT $)", "SELECT 1 WHERE $ > 0", "SELECT 1 GROUP BY $", "SELECT 1 HAVING $ > 0",
		"SELECT 1 QUALIFY $ > 0", "SELECT 1 ORDER BY $", "SELECT 1 LIMIT $", "SELECT 1 OFFSET $",
		"SELECT DISTINCT ON ($) 1",
		"VALUES ($)", "FROM range($)", "FROM (VALUES ($))", "FROM python.steps, LATERAL (SELECT $)",
		"FROM python.steps AS s JOIN python.steps AS t ON $ = s.step", "FROM python.steps AT (VERSION => $)",
		"WITH x AS (SELECT $) FROM x", "WITH RECURSIVE x AS (SELECT 1 UNION ALL SELECT $ FROM x) FROM x",
		"WITH x AS MATERIALIZED (SELECT $) SELECT 1", "SELECT 1 UNION SELECT $",
		"SELECT sum(1) OVER w WINDOW w AS (ORDER BY $)",
		"SELECT sum(1) OVER (ROWS BETWEEN $ PRECEDING AND CURRENT ROW)", "DESCRIBE SELECT $", "SUMMARIZE SELECT $",
		"EXPLAIN SELECT $", "EXPLAIN ANALYZE SELECT $", "EXPLAIN (FORMAT json) SELECT $",
		"PIVOT (SELECT 1 AS a, $ AS b) ON a IN (1) USING sum(b)",
		"PIVOT (SELECT 1 AS a, 2 AS b) ON a IN (1) USING sum(b + $)",
		"PIVOT (SELECT 1 AS a, 2 AS b) ON (a + $) IN (1) USING sum(b)", "UNPIVOT (SELECT $ AS a) ON a",
		"FROM python.steps SELECT $", "SELECT x: $", "SELECT * FROM (SHOW TABLES) WHERE $ > 0",
		"SELECT GROUPING($) GROUP BY ROLLUP ($)",
		"SELECT -$", "SELECT $ + 1", "SELECT 1 || $", "SELECT NOT $", "SELECT $ IS NULL", "SELECT row($)",
		"SELECT ($, 1)",
		"SELECT '{}'::JSON -> $::TEXT", "SELECT '{}'::JSON ->> $::TEXT", "SELECT $ AT TIME ZONE 'UTC'",
		"SELECT TIMESTAMP '2020-01-01' AT TIME ZONE $::TEXT", "SELECT position('a' IN $::TEXT)",
		"SELECT coalesce($, 1)",
		"SELECT nullif($, 1)", "SELECT unnest([$])", "SELECT #1 ORDER BY $", "SELECT struct_pack(a := $)",
		"SELECT getvariable($::TEXT)", "FROM python.steps POSITIONAL JOIN (SELECT $)", "FROM json_each($::TEXT)",
	} {
		sql := strings.ReplaceAll(form, "$", call)
		_, err := tryAsk(context.Background(), db, sql)
		if err == nil || !strings.Contains(err.Error(), "nextval") || !strings.Contains(err.Error(), "not available") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
