package table

import (
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// TestMigrationOfWhatIsDescribed: a new column and a new table make SQL of their own, once, and leave that of earlier
// migrations as it was.
func TestMigrationOfWhatIsDescribed(t *testing.T) {
	all := All
	defer func() { All = all }()
	steps, drops := &model.Step{}, &model.Drop{}
	All = []*Table{
		{View: "python.steps", Store: "steps", Columns: columns(
			number("step", &steps.Step, "number"),
			gauge("agent_ns", &steps.AgentNS, "ns").as("agent", "DOUBLE", "agent_ns / 1e9", "s").since(3),
			gauge("gc_full", &steps.GCFull, "collections").since(4),
		)},
		{View: "net.drops", Store: "net_drops", Since: 3, Columns: columns(text("source", &drops.Source, "file"))},
	}
	const tables = "ALTER TABLE store.steps ADD COLUMN agent_ns BIGINT;\nCREATE SCHEMA IF NOT EXISTS net;\n" +
		"CREATE TABLE store.net_drops (source VARCHAR);"
	const views = "CREATE OR REPLACE VIEW python.steps AS SELECT step, agent_ns / 1e9 AS agent FROM store.steps;\n" +
		"CREATE OR REPLACE VIEW net.drops AS SELECT source FROM store.net_drops;\n"
	if gotTables, gotViews := Migration(3); gotTables != tables || gotViews != views || Latest() != 4 {
		t.Errorf("latest %d, migration 3:\n%s\n%s", Latest(), gotTables, gotViews)
	}
	if gotTables, gotViews := Migration(2); gotTables+gotViews != "" {
		t.Errorf("migration 2: %s%s", gotTables, gotViews)
	}
}
