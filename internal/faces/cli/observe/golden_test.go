package observe_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/observe"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{observe.Commands}, Cases: []golden.Case{
		{Name: "run-wrong", Real: true, Lines: []string{"run", "run --budget lots -- true",
			"run --trace some -- true",
			"run --max-disk big -- true", "run --interval often -- true", "run --on-oom retry -- true",
			"run --guard none.yaml -- true", "run --native=maybe -- true", "run --native=0 -- true",
			"run --native= -- true", "run --name 4711 -- true",
			"run --session full -- true", "run -- none/program", "run --dry-run -- true", "run --allow eval -- true",
			"run --job llama -- true", "run --node n1 -- true",
			"4711 run -- true", "-t trainer run -- true"}},
		{Name: "attach-wrong", Real: true, Lines: []string{"attach", "attach trainer", "attach 5000001", "attach 1 2",
			"attach --timeout never 5000001", "attach --native 5000001", "attach 5000001 --json"}},
		{Name: "detach-wrong", Real: true, Lines: []string{"detach", "detach trainer", "detach 5000001",
			"detach --timeout never 5000001"}},
		{Name: "guard", Lines: []string{"guard", "guard policy.yaml", "guard policy.yaml --json", "guard wrong.yaml",
			"guard none.yaml", "guard a b", "guard --jsno"}},
	}, Files: map[string]string{"full/file": "", "policy.yaml": "memory:\n  warning_threshold: 0.8\n",
		"wrong.yaml": "memory:\n  warning: [\n"}})
}
