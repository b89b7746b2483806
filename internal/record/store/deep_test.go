package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/allowed"
	"github.com/memgauge/memgauge/test/env"
)

// around gives n times the head, the middle, and n times the tail.
func around(n int, head, middle, tail string) string {
	return strings.Repeat(head, n) + middle + strings.Repeat(tail, n)
}

// nested are statements whose parts stand in each other.
var nested = map[string]func(n int) string{
	"parentheses": func(n int) string { return "SELECT " + around(n, "(", "1", ")") },
	"functions":   func(n int) string { return "SELECT " + around(n, "abs(", "1", ")") },
	"json":        func(n int) string { return "SELECT " + around(n, "json_array(", "1", ")") },
	"case":        func(n int) string { return "SELECT " + around(n, "CASE WHEN true THEN ", "1", " END") },
	"subqueries":  func(n int) string { return "SELECT " + around(n, "(SELECT ", "1", ")") },
	"from":        func(n int) string { return around(n, "SELECT * FROM (", "SELECT 1", ")") },
	"casts":       func(n int) string { return "SELECT " + around(n, "CAST(", "1", " AS INT)") },
	"colons":      func(n int) string { return "SELECT 1" + strings.Repeat("::INT", n) },
	"lists":       func(n int) string { return "SELECT " + around(n, "[", "1", "]") },
	"structs":     func(n int) string { return "SELECT " + around(n, "{'a':", "1", "}") },
	"sums":        func(n int) string { return "SELECT 1" + strings.Repeat("+1", n) },
	"conditions":  func(n int) string { return "SELECT true" + strings.Repeat(" AND true", n) },
	"not":         func(n int) string { return "SELECT " + strings.Repeat("NOT ", n) + "true" },
	"texts":       func(n int) string { return "SELECT 'a'" + strings.Repeat("||'a'", n) },
	"arrows":      func(n int) string { return "SELECT '{}'::JSON" + strings.Repeat("->'a'", n) },
	"indexes":     func(n int) string { return "SELECT ('[1]'::JSON)" + strings.Repeat("[1]", n) },
	"lambdas": func(n int) string {
		s := "1"
		for i := range n {
			s = fmt.Sprintf("list_transform([1], lambda x%d: %s)", i, s)
		}
		return "SELECT " + s
	},
	"chain": func(n int) string {
		s := "WITH c0 AS (SELECT 1 AS a)"
		for i := range n {
			s += fmt.Sprintf(", c%d AS (SELECT [a] AS a FROM c%d)", i+1, i)
		}
		return s + fmt.Sprintf(" SELECT * FROM c%d", n)
	},
	"with":    func(n int) string { return around(n, "WITH c AS (", "SELECT 1", ") SELECT * FROM c") },
	"unions":  func(n int) string { return "SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", n) },
	"joins":   func(n int) string { return "SELECT 1 FROM range(1) a" + strings.Repeat(" CROSS JOIN range(1)", n) },
	"like":    func(n int) string { return "SELECT repeat('a', 1000) LIKE '" + strings.Repeat("%a", n) + "b'" },
	"regexp":  func(n int) string { return "SELECT regexp_matches('a', '" + around(n, "(", "a", ")") + "')" },
	"types":   func(n int) string { return "SELECT NULL::INT" + strings.Repeat("[]", n) },
	"records": func(n int) string { return "SELECT NULL::" + around(n, "STRUCT(a ", "INT", ")") },
	"exists":  func(n int) string { return around(n, "SELECT 1 WHERE EXISTS (", "SELECT 1", ")") },
	"in":      func(n int) string { return "SELECT " + around(n, "1 IN (", "1", ")") },
	"between": func(n int) string { return "SELECT " + around(n, "1 BETWEEN 0 AND (", "1", ")") },
	"null":    func(n int) string { return "SELECT 1" + strings.Repeat(" IS NULL", n) },
}

// A statement that is nested deeply is answered or refused, and ends neither the process nor its patience: DuckDB binds
// what is in a subquery, a lambda or an arrow twice for each of them.
func TestNestedStatements(t *testing.T) {
	db := open(t, Options{MemoryLimit: 256 << 20})
	for name, statement := range nested {
		for _, n := range []int{4, 40, 400, 4000} {
			_, err := tryAsk(context.Background(), db, statement(n))
			var e *Error
			if n == 4 && err != nil || err != nil && !errors.As(err, &e) {
				t.Errorf("%s, %d deep: %v", name, n, err)
			}
		}
	}
	for _, name := range []string{"subqueries", "exists", "lambdas", "arrows"} {
		if _, err := tryAsk(context.Background(), db, nested[name](40)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each function of JSON and each cast that questions may use bears a text that is nested as deeply as texts go: what
// calls itself for each level of it would end the process.
func TestNestedTexts(t *testing.T) {
	db := open(t, Options{MemoryLimit: 256 << 20})
	calls := []string{"x::JSON", "x::JSON::VARIANT", "x::JSON::VARIANT::VARCHAR", "x::JSON::VARIANT::JSON",
		"hash(x::JSON::VARIANT)", "x::JSON::VARIANT = x::JSON::VARIANT", "x::JSON::INT[][]", "x::INT[][]",
		"x::JSON::STRUCT(a JSON)", "x::JSON::MAP(VARCHAR, JSON)", "[x::JSON::VARIANT]::VARCHAR",
		"x::JSON::\"variant\"", "x::JSON::system.main.VARIANT", "TRY_CAST([x::JSON] AS VARIANT[])",
		"cast_to_type(x::JSON, NULL::VARIANT)", "cast_to_type(x::JSON, make_type('VARIANT'))",
		"x::JSON::make_type('VARIANT')", "(VALUES (x::JSON), (NULL::VARIANT))", "x::JSON ->> '$..a'"}
	seen := map[string]bool{}
	for _, f := range everyFunction(t) {
		ours := strings.Contains(f.name, "json") || strings.Contains(f.name, "variant")
		if call := f.name + "(" + around(max(1, len(f.parameters))-1, "x, ", "x", "") + ")"; ours && !seen[call] &&
			allowed.Names()[allowed.Expression][f.name].Allowed {
			seen[call] = true
			calls = append(calls, call)
		}
	}
	n := env.Times(200_000, 1_000_000)
	for _, call := range calls {
		for _, x := range []string{"repeat('[', %d) || repeat(']', %d)",
			`repeat('{"a":', %d) || '1' || repeat('}', %d)`} {
			sql := "SELECT length(CAST(" + call + " AS VARCHAR)) FROM (SELECT " + fmt.Sprintf(x, n, n) + " AS x)"
			_, err := tryAsk(t.Context(), db, sql)
			var e *Error
			if err != nil && !errors.As(err, &e) {
				t.Errorf("%s: %v", call, err)
			}
		}
	}
}
