package store

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/table"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered change of the schema: the tables and columns whose description in package table has this
// number as `since`, and an SQL file if rows must move. It never changes after a release.
type migration struct {
	number    int64
	name, sql string
	views     string // SQL too, made after the rest
	checksum  string // SHA-256 of sql
}

// migrations are in order of their numbers, from 1, without gaps.
func migrations() ([]migration, error) {
	entries, err := migrationFiles.ReadDir("migrations") // sorted by name
	if err != nil {
		return nil, err
	}
	files := map[int]string{}
	last := table.Latest()
	for _, e := range entries {
		n := 0
		if _, err := fmt.Sscanf(e.Name(), "%04d_", &n); err != nil || files[n] != "" {
			return nil, fmt.Errorf("migration %s has no number, or another one's", e.Name())
		}
		files[n], last = e.Name(), max(last, n)
	}
	var all []migration
	for n := 1; n <= last; n++ {
		m, err := makeMigration(n, files[n])
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// makeMigration makes migration n of what the descriptions give for it and an SQL file; file is "" if there is none.
func makeMigration(n int, file string) (m migration, err error) {
	m = migration{number: int64(n), name: fmt.Sprintf("%04d_tables", n)}
	m.sql, m.views = table.Migration(n)
	if file != "" {
		text, err := migrationFiles.ReadFile("migrations/" + file)
		if err != nil {
			return m, err
		}
		m.name, m.sql = strings.TrimSuffix(file, ".sql"), m.sql+string(text)
	}
	if m.sql == "" && m.views == "" {
		return m, fmt.Errorf("there is no migration %d", n)
	}
	sum := sha256.Sum256([]byte(m.sql))
	m.checksum = hex.EncodeToString(sum[:])
	return m, nil
}

// migrate reviews the catalog and brings the schema up to date; if it is, that costs some 20 ms. A database opened
// read-only is left as it is.
func migrate(e *engine, o Options) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	c, err := e.connect()
	if err != nil {
		return err
	}
	defer c.close()
	if err := reviewSession(c, o.TempDir, all); err != nil {
		return err
	}
	have, err := recorded(c)
	if err != nil {
		return err
	}
	if err := compare(have, all); err != nil {
		return err
	}
	if len(have) > 0 && o.ReadOnly {
		return nil // one that an earlier release finished holds what it holds: only the tables since are missing
	}
	for _, m := range all[len(have):] {
		if err := m.run(c); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
	}
	if len(have) < len(all) {
		return c.exec("CHECKPOINT") // so that the next to open need not replay it
	}
	return nil
}

// recorded returns the migrations that were run on this database, none if it is new.
func recorded(c *conn) (have []migration, err error) {
	err = c.all("SELECT number, name, checksum FROM store.migrations ORDER BY number", func(v []any) {
		have = append(have, migration{number: v[0].(int64), name: v[1].(string), checksum: v[2].(string)})
	})
	if errors.Is(err, ErrNoTable) {
		return nil, nil
	}
	return have, err
}

// compare checks what was run against what this program would have run.
func compare(have, all []migration) error {
	for i, h := range have {
		switch {
		case i >= len(all):
			return remedy.Add(&Error{Msg: fmt.Sprintf("its schema is number %d (%s); this memgauge knows %d",
				have[len(have)-1].number, have[len(have)-1].name, len(all)),
				Kind: ErrNewer}, "use the memgauge that made it, or a newer one")
		case h.number != all[i].number || h.checksum != all[i].checksum:
			return remedy.Add(&Error{Msg: fmt.Sprintf("its migration %d (%s) differs from this memgauge's (%s)",
				h.number, h.name, all[i].name),
				Kind: ErrEdited}, "it was made by a build that was never released")
		}
	}
	return nil
}

// run applies the migration and records it, in one transaction.
func (m migration) run(c *conn) error {
	record := fmt.Sprintf("INSERT INTO store.migrations VALUES (%d, %s, %s, now()::TIMESTAMP)", m.number, quote(m.name),
		quote(m.checksum))
	err := c.exec("BEGIN;" + m.sql + ";" + m.views + record + ";COMMIT")
	if err != nil {
		_ = c.exec("ROLLBACK") // fails where the commit itself failed
	}
	return err
}
