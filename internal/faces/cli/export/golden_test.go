package export_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/export"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	families := []app.Family{export.Commands, ask.Commands}
	golden.Run(t, golden.Table{Families: families, Sessions: golden.Job(t), Cases: []golden.Case{
		{Name: "export", Lines: []string{"done export --perfetto run.json", "done export --pprof holders.pb.gz",
			"resnet export --tensorboard runs --parquet tables", "mute export --perfetto other.json"}},
		{Name: "export-wrong", Lines: []string{"done export", "done export --perfetto run.txt",
			"done export --prometheus nowhere", "done export --otlp collector:4318",
			"done export --otlp http://x --interval 1ms",
			"export done --perfetto run.json", "done export --perfetto none/run.json",
			"none export --pprof x.pb.gz"}},
		{Name: "mcp-wrong", Lines: []string{"mcp resnet", "none mcp", "mcp --allow-evil"}},
		{Name: "mcp", Real: true, Lines: []string{"mcp < list.json", "mcp < query.json"}},
	}, Files: map[string]string{"list.json": opening + `{"name":"sessions","arguments":{}}}` + "\n",
		"query.json": opening + `{"name":"query","arguments":{"sql":"SELECT 1","session":"none"}}}` + "\n"}})
}

// opening begins a conversation. One question follows in each: answers come as they are ready.
const opening = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":`
