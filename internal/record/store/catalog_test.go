package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// TestCatalogsAreListed: catalogs.txt has the catalog of each version that this program can make. Lines stay for ever,
// since databases of before do.
func TestCatalogsAreListed(t *testing.T) {
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	added := ""
	look := func(what string, version int, items []item) {
		if !made(what, items) {
			if !*update {
				t.Errorf("catalogs.txt lacks %s %d: make generate", what, version)
			}
			if line := fmt.Sprintln(what, version, digest(items)); !strings.Contains(added, line) {
				added += line
			}
		}
	}
	for n := 1; n <= len(all); n++ {
		items, err := sessionCatalog(t.TempDir(), all[:n])
		if err != nil {
			t.Fatal(err)
		}
		look("session", n, items)
	}
	for _, full := range []bool{true, false} {
		look("snapshot", SnapshotVersion, rawCatalog(t, madeSnapshot(t, full)))
	}
	if *update && added != "" {
		if err := os.WriteFile("catalogs.txt", []byte(catalogList+added), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// madeSnapshot makes a snapshot's database, of a history with values or of an empty one.
func madeSnapshot(t *testing.T, full bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.duckdb")
	s := &snapshot.Snapshot{}
	if full {
		s = madeUp(10)
	}
	if err := MakeSnapshot(t.Context(), path, historyOf(t, s), nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func rawCatalog(t *testing.T, path string) (items []item) {
	t.Helper()
	err := onFile(Options{Path: path, ReadOnly: true, TempDir: t.TempDir()}.withDefaults(), func(c *conn) (err error) {
		items, err = catalogOf(c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// foreignCatalogs are what a file from elsewhere may bring along. $DIR is watched.
var foreignCatalogs = []string{
	"CREATE OR REPLACE VIEW python.steps AS SELECT json_serialize_plan('EXPORT DATABASE ''$DIR/x''') AS step",
	"CREATE OR REPLACE VIEW python.steps AS FROM read_text('$DIR/secret')",
	"CREATE VIEW main.more AS SELECT 1", "CREATE VIEW python.more AS SELECT 1",
	"CREATE MACRO main.lower(x) AS json_serialize_plan('EXPORT DATABASE ''$DIR/x''')",
	"CREATE MACRO main.sum(x) AS 1", "CREATE MACRO python.f(x) AS 1",
	"CREATE MACRO main.duckdb_views() AS TABLE SELECT 'a' AS database_name, 'b' AS schema_name, 'c' AS view_name, " +
		"'d' AS sql; CREATE VIEW main.more AS SELECT 1",
	"CREATE MACRO main.range(x) AS TABLE FROM read_text('$DIR/secret')",
	"ALTER TABLE store.migrations RENAME TO old; CREATE VIEW store.migrations AS " +
		"SELECT number, name, checksum, ts FROM store.old, (SELECT json_serialize_plan('EXPORT DATABASE ''$DIR/x'''))",
	"ALTER TABLE store.names ALTER id SET DEFAULT length(json_serialize_plan('EXPORT DATABASE ''$DIR/x'''))",
	"CREATE OR REPLACE TABLE store.names (id INTEGER NOT NULL, " +
		"text VARCHAR AS (json_serialize_plan('EXPORT DATABASE ''$DIR/x''')))",
	"CREATE OR REPLACE TABLE store.names (id INTEGER NOT NULL, text VARCHAR NOT NULL CHECK (length(text) > 0))",
	"CREATE INDEX i ON store.names ((id + 1))", "CREATE SEQUENCE s",
	"CREATE SCHEMA more", "CREATE TABLE main.more (a INTEGER)", "DROP VIEW python.steps",
	"ALTER TABLE store.names ADD COLUMN more INTEGER",
}

// TestForeignCatalogs: a database with anything in its catalog that memgauge did not make is not used, and nothing of
// it is bound before.
func TestForeignCatalogs(t *testing.T) {
	watched := t.TempDir()
	if err := os.WriteFile(filepath.Join(watched, "secret"), []byte("xyzzy"), 0o600); err != nil {
		t.Fatal(err)
	}
	honest := filepath.Join(t.TempDir(), "session.duckdb")
	if err := open(t, Options{Path: honest}).Close(); err != nil {
		t.Fatal(err)
	}
	for _, sql := range foreignCatalogs {
		path := filepath.Join(t.TempDir(), "session.duckdb")
		text, err := os.ReadFile(honest)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		alter(t, path, strings.ReplaceAll(sql, "$DIR", watched))
		if err := os.RemoveAll(filepath.Join(watched, "x")); err != nil { // the attacker's binding made it
			t.Fatal(err)
		}
		for _, readOnly := range []bool{true, false} {
			db, err := Open(context.Background(), Options{Path: path, ReadOnly: readOnly})
			if !errors.Is(err, ErrEdited) {
				t.Errorf("%s, read only %t: %v", sql, readOnly, err)
			}
			if err == nil {
				db.Close()
			}
		}
		if left, err := os.ReadDir(watched); err != nil || len(left) != 1 {
			t.Errorf("%s left %v, %v", sql, left, err)
		}
	}
}

// An alias of a type is written into a table's SQL as it is, so it can pass for columns with their types: the text is
// then that of our table, though types are others, or a generated column is bound.
func TestAliasesOfTypes(t *testing.T) {
	const begin = `TIMESTAMP NOT NULL, pid INTEGER, rank INTEGER, "name" ENUM('`
	const end = `') NOT NULL, "text" VARCHAR NOT NULL, a BIGINT, b BIGINT, batch BIGINT`
	const two = `BIGINT, batch BIGINT`
	named := func(alias string) string { return `"` + strings.ReplaceAll(alias, `"`, `""`) + `"` }
	for what, sql := range map[string]string{
		"generated": "CREATE OR REPLACE TABLE store.events (ts " + named(begin) + ", pid INTEGER, rank INTEGER, " +
			"name VARCHAR, text VARCHAR, s VARCHAR, a BIGINT GENERATED ALWAYS AS (b + 666), b BIGINT, batch BIGINT, " +
			"zz " + named(end) + ")",
		"type": "ALTER TABLE store.events DROP batch; ALTER TABLE store.events ALTER b TYPE " + named(two),
	} {
		db := open(t, Options{})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		err := onFile(Options{Path: db.o.Path, TempDir: t.TempDir()}.withDefaults(), func(c *conn) error {
			types := map[string]duck.Type{begin: duck.TypeTimestamp, end: duck.TypeBigInt, two: duck.TypeVarchar}
			for alias, id := range types {
				l := duck.CreateLogicalType(id)
				defer duck.DestroyLogicalType(&l)
				duck.LogicalTypeSetAlias(l, alias)
				if duck.RegisterLogicalType(c.c, l, duck.CreateTypeInfo{}) == duck.StateError {
					t.Errorf("%q can't be registered", alias)
				}
			}
			return c.exec(sql)
		})
		if err != nil {
			t.Fatal(err)
		}
		if db, err := Open(t.Context(), Options{Path: db.o.Path, ReadOnly: true}); !errors.Is(err, ErrEdited) {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				db.Close()
			}
		}
	}
}

// A file that has macros only would become a session's, with those macros.
func TestMacrosWithoutTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.duckdb")
	alter(t, path, "CREATE MACRO main.lower(x) AS 1")
	if _, err := Open(context.Background(), Options{Path: path}); !errors.Is(err, ErrEdited) {
		t.Error(err)
	}
}

// A snapshot's database that was changed is made again.
func TestForeignSnapshot(t *testing.T) {
	path := madeSnapshot(t, true)
	db, err := OpenSnapshot(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	alter(t, path, "CREATE OR REPLACE MACRO main.live_at(moment) AS TABLE FROM read_text('/etc/passwd')")
	if _, err := OpenSnapshot(t.Context(), path, nil); !errors.Is(err, ErrEdited) {
		t.Error(err)
	}
}

// TestFilesAreShutFromTheStart: the replay of a log evaluates expressions that are in it (ALTER … TYPE … USING f()),
// before anything is reviewed. So no other file is within reach already while DuckDB opens the database.
func TestFilesAreShutFromTheStart(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("xyzzy"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	o := Options{Path: filepath.Join(dir, "session.duckdb"), TempDir: own}.withDefaults()
	err := onFile(o, func(c *conn) error {
		export := "EXPORT DATABASE " + quote(dir+"/x")
		_ = c.exec("SELECT json_serialize_plan(" + quote(export) + ")") // its error is in its answer
		for _, sql := range []string{export, "FROM read_text(" + quote(secret) + ")",
			"COPY (SELECT 1) TO " + quote(dir+"/x.csv"), "ATTACH " + quote(dir+"/x.db"),
			"SET enable_external_access = true"} {
			if err := c.exec(sql); err == nil {
				t.Errorf("%s ran", sql)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 { // secret, own and the database
		t.Errorf("left are %v, %v", left, err)
	}
}

// A session in a directory that is reached over a link is written, exported and read as any: DuckDB compares resolved
// paths, also of a log that is not there yet.
func TestSessionBehindALink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(link, "session.duckdb")
	db := open(t, Options{Path: path, logBytes: 1 << 40})
	fillTrace(t, db, 100, 100, -1)
	if err := db.ExportTo(t.Context(), "FROM python.torch_trace", io.Discard); err != nil {
		t.Error(err)
	}
	if err := db.Checkpoint(t.Context()); err != nil {
		t.Error(err)
	}
	fillTrace(t, db, 100, 100, -1)
	copied := filepath.Join(link, "copy.duckdb") // as after a kill: the log is still beside it
	for _, end := range []string{"", ".wal"} {
		text, err := os.ReadFile(path + end)
		if err == nil {
			err = os.WriteFile(copied+end, text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	for _, o := range []Options{{Path: copied}, {Path: path, ReadOnly: true}} {
		if got := ask(t, open(t, o), "SELECT count(*) FROM python.torch_trace"); got[0][0] == int64(0) {
			t.Errorf("%+v has no rows", o)
		}
	}
}
