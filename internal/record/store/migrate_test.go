package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// shownAs is every view's columns with their types, and its rows.
func shownAs(t *testing.T, db *DB) string {
	t.Helper()
	var s strings.Builder
	for _, view := range table.Views() {
		for _, row := range append(ask(t, db, "DESCRIBE "+view), ask(t, db, "FROM "+view+" ORDER BY ALL")...) {
			fmt.Fprintln(&s, view, row)
		}
	}
	return s.String()
}

// TestViewsAreAsDescribed: the views that released migrations have made are those that the descriptions would make.
func TestViewsAreAsDescribed(t *testing.T) {
	db := open(t, Options{})
	b := everything()
	b.Samples = oracleSamples()
	add(t, db, b)
	want := shownAs(t, db)
	err := db.withConn(context.Background(), func(c *conn) error {
		for _, about := range table.All {
			if sql := about.ViewSQL(1 << 20); sql != "" {
				if err := c.exec(sql); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := shownAs(t, db); got != want {
		t.Errorf("the descriptions make\n%s\nthe migrations\n%s", got, want)
	}
	list, err := db.Tables(context.Background(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, have := range list {
		about := table.Find(have.Schema + "." + have.Name)
		if about == nil {
			t.Errorf("%s.%s has no description", have.Schema, have.Name)
			continue
		}
		for _, c := range have.Columns {
			if c.Doc == "" || have.Schema != "store" && !isShown(about, c) {
				t.Errorf("%s.%s.%s %s is not what is described", have.Schema, have.Name, c.Name, c.Type)
			}
		}
	}
}

func isShown(about *table.Table, c model.ColumnDoc) bool {
	for _, d := range about.Columns {
		if d.Name == c.Name {
			return d.Type == c.Type
		}
	}
	return false
}

// describeMore adds a column to python.steps and a table in a schema of its own, as the next release might: two lines
// of description and no SQL.
func describeMore(t *testing.T) {
	t.Helper()
	number := table.Latest()
	files, err := os.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	number = max(number, len(files)) + 1
	steps, all := table.Find("python.steps"), table.All
	columns := steps.Columns
	t.Cleanup(func() { steps.Columns, table.All = columns, all })
	c := columns[slices.IndexFunc(columns, func(c table.Column) bool { return c.Stored == "agent_ns" })]
	c.Name, c.Stored, c.Doc, c.Since = "cost", "cost_ns", "s of cost", number
	c.As, c.Type = "cost_ns / 1e9::DOUBLE", "DOUBLE"
	steps.Columns = append(columns[:len(columns):len(columns)], c)
	more := *table.Find("memgauge.events")
	more.View, more.Store, more.Doc, more.Since = "net.events", "net_events", "what happened on the net", number
	table.All = append(all[:len(all):len(all)], &more)
}

// TestDescriptionsMigrate: a column and a table that are described are there in sessions that were made before, in new
// ones, and are filled, shown and explained.
func TestDescriptionsMigrate(t *testing.T) {
	dir := t.TempDir()
	earlier := filepath.Join(dir, "earlier.duckdb")
	db := open(t, Options{Path: earlier})
	add(t, db, everything())
	db.Close()
	describeMore(t)
	fresh := filepath.Join(dir, "new.duckdb")
	for path, rows := range map[string]string{earlier: "[[<nil>] [7e-09]]", fresh: "[[7e-09]]"} {
		db := open(t, Options{Path: path})
		b := everything()
		b.Names, b.Processes = nil, nil
		b.Trace = nil
		add(t, db, b)
		if got := fmt.Sprint(ask(t, db, "SELECT cost FROM python.steps ORDER BY cost NULLS FIRST")); got != rows {
			t.Errorf("%s: steps %s", path, got)
		}
		if got := fmt.Sprint(ask(t, db, "SELECT name, a FROM net.events")); got != "[[eval 1]]" {
			t.Errorf("%s: events %s", path, got)
		}
		list, err := db.Tables(context.Background(), false)
		told := fmt.Sprint(list)
		if err != nil || !strings.Contains(told, "s of cost") || !strings.Contains(told, "what happened on the net") {
			t.Errorf("%v: %s", err, told)
		}
		db.Close()
		if again := open(t, Options{Path: path}); again.Close() != nil {
			t.Error("it is not opened twice")
		}
	}
}
