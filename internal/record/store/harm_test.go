package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/allowed"
	"github.com/memgauge/memgauge/test/env"
)

// function is an overload of the linked DuckDB.
type function struct {
	name, kind string
	parameters []string // types
	varargs    string
}

// everyFunction lists at most two overloads of a name and number of parameters: a third one is another number type.
func everyFunction(t testing.TB) (all []function) {
	t.Helper()
	seen := map[string]int{}
	err := scratchConn(t).all("SELECT DISTINCT function_name, function_type, parameter_types, varargs, "+
		"len(parameters) FROM duckdb_functions() ORDER BY ALL", func(v []any) {
		f := function{name: v[0].(string), kind: v[1].(string)}
		types, _ := v[2].([]any)
		for i := range v[4].(int64) {
			typ := "ANY" // of a macro's parameter
			if i < int64(len(types)) && types[i] != nil {
				typ = types[i].(string)
			}
			f.parameters = append(f.parameters, typ)
		}
		f.varargs, _ = v[3].(string)
		key := fmt.Sprint(f.kind, f.name, len(f.parameters))
		if seen[key]++; seen[key] <= 2 && !strings.HasPrefix(f.name, "icu_collate_") {
			all = append(all, f)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// texts are what a hostile caller passes where a function takes one.
var texts = []string{"EXPORT DATABASE '$TMP/x'", "EXPORT DATABASE '$DIR/x'", "COPY (SELECT 1) TO '$DIR/x.csv'",
	"COPY (SELECT 1) TO '$DIR/tier=raw/job=a/a.parquet'", "ATTACH '$DIR/x.db'", "$DIR/secret.csv", "$DIR/*",
	"/etc/passwd", "https://127.0.0.1:1/x", "session.duckdb", "SET threads = 1"}

// arguments are literals of the function's types; the turn chooses among them.
func (f function) arguments(turn int) string {
	parameters := slices.Clone(f.parameters)
	if f.varargs != "" {
		parameters = append(parameters, f.varargs, f.varargs)
	}
	var out []string
	for i, typ := range parameters {
		text := quote(texts[(turn+i*turn)%len(texts)])
		switch {
		case typ == "LAMBDA":
			out = append(out, "lambda x: x")
		case typ == "VARCHAR" || typ == "ANY" || typ == "JSON" || typ == "BLOB":
			out = append(out, text)
		case strings.HasSuffix(typ, "[]"):
			out = append(out, "["+text+"]")
		case typ == "BOOLEAN":
			out = append(out, "true")
		case strings.Contains(typ, "INT") || typ == "DOUBLE" || typ == "FLOAT" || strings.HasPrefix(typ, "DECIMAL"):
			out = append(out, []string{"3", "NULL", "-1"}[(turn+i)%3]) // small: some take memory by it
		case strings.HasPrefix(typ, "STRUCT") || strings.HasPrefix(typ, "MAP"):
			out = append(out, "MAP {"+text+": 1}")
		case strings.HasPrefix(typ, "DATE") || strings.HasPrefix(typ, "TIME"):
			out = append(out, "'2026-01-01 00:00:00'")
		default:
			out = append(out, "NULL")
		}
	}
	return strings.Join(out, ", ")
}

// forms are the ways to call a function, whatever its kind.
var forms = []string{"SELECT $", "FROM $", "SELECT (SELECT $)", "EXPLAIN ANALYZE SELECT $", "EXPLAIN ANALYZE FROM $",
	"EXPLAIN FROM $", "SELECT * FROM range(2), LATERAL (SELECT $)", "WITH x AS MATERIALIZED (SELECT $) FROM x",
	"SELECT $ OVER () FROM range(2)", "SELECT list_transform([1], lambda y: $)", "CALL $", "PRAGMA $"}

const secretText = "xyzzy-the-secret"

// watched is everything below a directory: names, sizes, times. What the engine keeps for itself is left out.
func watched(t testing.TB, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(d.Name(), engineDir) {
			if err == nil && d.IsDir() {
				err = fs.SkipDir
			}
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&out, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// asked is a place where questions are asked.
type asked struct {
	name, dir string
	db        *DB
}

// askedPlaces are a session that is written, a finished one, and a lake's files.
func askedPlaces(t *testing.T) []asked {
	t.Helper()
	var all []asked
	for _, name := range []string{"session", "finished", "files"} {
		dir := t.TempDir()
		for file, text := range map[string]string{"secret.csv": "a,b\n" + secretText + ",2\n", "a.csv": "a\n1\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, "session.duckdb")
		db := open(t, Options{Path: path})
		fillTrace(t, db, 100, 100, -1)
		if err := db.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if name != "session" {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = open(t, Options{Path: path, ReadOnly: true})
		}
		if name == "files" {
			file := filepath.Join(dir, "tier=raw", "job=a", "a.parquet")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := WriteParquet(t.Context(), "SELECT 1 AS step", file, 1, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			views := []FileView{{Schema: "python", Name: "steps", Files: []string{file},
				Columns: []FileColumn{{Name: "job", Type: "VARCHAR", Key: true}, {Name: "step", Type: "INTEGER"}}}}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			var err error
			if db, err = OpenFiles(t.Context(), dir, views, Options{TempDir: t.TempDir()}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
		}
		all = append(all, asked{name, dir, db})
	}
	return all
}

// TestEveryFunctionIsHarmless calls every function of the linked DuckDB with hostile arguments, in every place where
// questions are asked: no file comes, goes or changes, no file's or variable's text is in an answer, and no setting is
// another one afterwards. In the short lane each is called in one of the places.
func TestEveryFunctionIsHarmless(t *testing.T) {
	t.Setenv("MEMGAUGE_TEST_SECRET", secretText)
	all := everyFunction(t)
	if len(all) < 900 {
		t.Fatalf("only %d functions", len(all))
	}
	const settings = "FROM duckdb_settings() ORDER BY name"
	places := askedPlaces(t)
	each := len(places) // of so many functions one is called
	if env.InLong() {
		each = 1
	}
	for n, p := range places {
		before, set, ran := watched(t, p.dir), fmt.Sprint(ask(t, p.db, settings)), 0
		fill := strings.NewReplacer("$DIR", p.dir, "$TMP", p.db.o.TempDir)
		for i, f := range all {
			if i%each != n%each {
				continue
			}
			for _, sql := range f.calls(i) {
				sql = fill.Replace(sql)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				rows, err := tryAsk(ctx, p.db, sql)
				cancel()
				if err == nil {
					ran++
				}
				got := fmt.Sprint(rows, err)
				if strings.Contains(got, secretText) || strings.Contains(got, "root:x:0") {
					t.Errorf("%s: %s tells %s", p.name, sql, got)
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %s takes too long", p.name, sql)
				}
			}
			left, err := os.ReadDir(p.db.o.TempDir)
			if after := watched(t, p.dir); after != before || err != nil || len(left) > 0 {
				t.Fatalf("%s: %s changed\n%s\ninto\n%s\nand left %v, %v", p.name, f.name, before, after, left, err)
			}
		}
		if after := fmt.Sprint(ask(t, p.db, settings)); after != set {
			t.Errorf("%s: the settings were\n%s\nand are\n%s", p.name, set, after)
		}
		if ran < 500/each { // else nothing was tried
			t.Errorf("%s: only %d calls ran", p.name, ran)
		}
	}
}

// calls are some calls of a function: each form is used for some function, and each function is called in several. A
// refused one is refused by its name alone, so that its arguments matter little.
func (f function) calls(i int) (out []string) {
	name := f.name
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_0123456789") != "" {
		name = `"` + name + `"`
	}
	main := "SELECT $"
	if strings.HasPrefix(f.kind, "table") {
		main = "FROM $"
	}
	for turn := range 4 {
		call := name + "(" + f.arguments(i+turn) + ")"
		out = append(out, strings.ReplaceAll(main, "$", call))
		if turn < 2 {
			out = append(out, strings.ReplaceAll(forms[(i*2+turn)%len(forms)], "$", call))
		}
	}
	return out
}

// The statements that take text, told by name: what once made a directory, in all places and forms.
func TestPlansAreNotMade(t *testing.T) {
	for _, p := range askedPlaces(t) {
		before := watched(t, p.dir)
		for _, target := range []string{p.dir, p.db.o.TempDir} {
			for _, f := range []string{"json_serialize_plan(", "main.json_serialize_plan(", `"JSON_Serialize_Plan"(`,
				"system.main.json_serialize_plan("} {
				call := f + quote("EXPORT DATABASE '"+target+"/x'") + ")"
				for _, form := range forms {
					_, err := tryAsk(t.Context(), p.db, strings.ReplaceAll(form, "$", call))
					if !errors.Is(err, ErrRefused) {
						var e *Error
						if !errors.As(err, &e) { // CALL main.f(…) is no grammar
							t.Errorf("%s: %s: %v", p.name, call, err)
						}
					}
				}
			}
		}
		left, err := os.ReadDir(p.db.o.TempDir)
		if after := watched(t, p.dir); after != before || err != nil || len(left) > 0 {
			t.Errorf("%s: %s is\n%s\nand %v, %v", p.name, before, after, left, err)
		}
	}
}

// plannedFunctions are the functions that DuckDB's binder has found in a statement, by its own plan. Another part of
// DuckDB made the gate's tree.
func plannedFunctions(c *conn, sql string) (names []string, err error) {
	v, err := c.one("SELECT json_serialize_plan(" + quote(sql) + ", skip_null := true, skip_default := true)")
	if err != nil {
		return nil, err
	}
	text, _ := v[0].(string)
	var plan any
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return nil, err
	}
	var look func(any)
	look = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			if _, is := x["has_serialize"]; is {
				if name, ok := x["name"].(string); ok {
					names = append(names, name)
				}
			}
			for _, child := range x {
				look(child)
			}
		case []any:
			for _, child := range x {
				look(child)
			}
		}
	}
	look(plan)
	return names, nil
}

// planned refuses plans with functions that no question may have, wherever they stand. What DuckDB puts in itself
// (create_sort_key) is left out.
func planned(names []string) error {
	for _, name := range names {
		for _, at := range []allowed.Place{allowed.Expression, allowed.From} {
			known, ok := allowed.Names()[at][lowerASCII(name)]
			if ok && !known.Allowed && !strings.Contains(known.Why, "own calls") &&
				!allowed.Names()[allowed.Expression][lowerASCII(name)].Allowed {
				return fmt.Errorf("the plan has %s", name)
			}
		}
	}
	return nil
}
