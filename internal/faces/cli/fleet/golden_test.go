package fleet_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/fleet"
	"github.com/memgauge/memgauge/internal/faces/cli/watch"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{fleet.Commands, ask.Commands, watch.Commands},
		Cases: []golden.Case{
			{Name: "hub-wrong", Real: true, Lines: []string{"hub --listen nowhere",
				"hub --listen 10.0.0.1:4222 --insecure",
				"hub --allow everything", "hub --cert cert.pem", "hub --replicas 3", "hub --lake-days x",
				"hub statsu"}},
			{Name: "status-wrong", Real: true, Lines: []string{"hub status",
				"hub status --hub 127.0.0.1:1 --token-file none",
				"hub status --strictly", "hub status now"}},
			{Name: "token-wrong", Real: true, Lines: []string{"hub token", "hub token rotate",
				"hub token rotate --role root", "hub token rotate now", "hub forget", "hub forget n1"}},
			{Name: "node-wrong", Real: true, Lines: []string{"node", "node --join nowhere:x",
				"node --join 127.0.0.1:1 --token-file none",
				"node --allow everything --join 127.0.0.1:1", "node now"}},
			{Name: "asked-wrong", Real: true, Lines: []string{"hub leak", "hub rank=x leak", "hub job=llama",
				"job=llama where",
				"hub query", "hub colour=red leak", "127.0.0.1:1 list", "hub leak --deadline soon",
				"hub run -- true"}},
		}})
}
