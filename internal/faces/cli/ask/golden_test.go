package ask_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/test/fakesession"
	"github.com/memgauge/memgauge/test/golden"
)

const heap = "SELECT step, rank, heap_in_use, ts FROM python.steps WHERE step <= 2 ORDER BY step, rank"

func TestGolden(t *testing.T) {
	sessions := golden.Job(t)
	for name, result := range map[string]api.EvalResult{
		"raises": {Outcome: api.Exception, Began: true, Place: api.Main,
			Exception: "Traceback (most recent call last):\n  File \"<eval>\", line 1, in <module>\n" +
				"NameError: name 'x' is not defined\n"},
		"slow":   {Outcome: api.TimedOut, Began: true, Place: api.Main, Took: 10e9, Elapsed: 10e9},
		"busy":   {Outcome: api.TimedOut, Took: 10e9},
		"stuck":  {Outcome: api.Blocked, Began: true, Place: api.Main, Took: 3e9},
		"gone":   {Outcome: api.Ended, Error: &api.Error{Message: "the process ended while it ran the code"}},
		"ctrl-c": {Outcome: api.Interrupted, Began: true, Place: api.Step},
	} {
		s := fakesession.Live(t)
		s.Ran = func(p api.Process) api.EvalResult {
			result.Process = p
			return result
		}
		sessions[name] = s
	}
	hung := fakesession.Live(t)
	hung.Members = hung.Members[2:]
	sessions["hung"] = hung
	golden.Run(t, golden.Table{Families: []app.Family{ask.Commands}, Sessions: sessions, Cases: []golden.Case{
		{Name: "query", Lines: []string{"resnet query '" + heap + "'", "resnet query -f json '" + heap + "'",
			"done query -f ndjson '" + heap + "'", "done query -f csv - < heap.sql",
			"done query -o heap.csv - < heap.sql",
			"cat heap.csv", "resnet query 'SELECT 1 WHERE false'",
			"resnet query \"SELECT name, text FROM memgauge.events ORDER BY ts\"", "mute query 'SELECT 1'"}},
		{Name: "query-wrong", Lines: []string{"resnet query -f xml 'SELECT 1'", "resnet query",
			"resnet query SELECT 1",
			"resnet query 'DROP TABLE python.steps'", "resnet query 'SELECT stepp FROM python.steps'",
			"resnet query 'SELECT * FROM python.stepz'", "resnet query 'SELEC 1'",
			"resnet query --since 2h 'SELECT 1'",
			"resnet query --timeout soon 'SELECT 1'", "resnet query -o none/x.csv 'SELECT 1'",
			"resnet query -o x.parquet -f csv 'SELECT 1'", "resnet query ''", "qurey 'SELECT 1'",
			"resnet qery 'SELECT 1'",
			"query --session nowhere 'SELECT 1'", "987654321 query 'SELECT 1'", "query 'SELECT 1'"}},
		{Name: "tables", Lines: []string{"resnet tables", "done tables steps memgauge.events",
			"done tables events --json",
			"mute tables"}},
		{Name: "tables-wrong", Lines: []string{"resnet tables stepz", "resnet tables --columms",
			"resnet tables --json=no"}},
		{Name: "list", Lines: []string{"list", "list -a", "list -a --json", "list resnet", "list --alll"}},
		{Name: "eval", Lines: []string{"resnet eval 'len(all_losses)'", "resnet eval --all 'len(all_losses)'",
			"resnet eval --json --rank 1 'len(all_losses)'", "resnet eval - < code.py",
			"resnet eval -F code.py --beside",
			"raises eval x", "raises eval --all x", "raises eval --json x", "slow eval x", "busy eval x",
			"stuck eval x",
			"gone eval x", "gone eval --all x", "gone eval --json x", "ctrl-c eval x", "done eval 1", "mute eval 1"}},
		{Name: "eval-wrong", Lines: []string{"resnet eval", "resnet eval a b", "resnet eval --rank 7 1",
			"resnet eval --pid 77 1", "resnet eval --rank 0 --all 1", "resnet eval --at once 1",
			"resnet eval --timeout never 1", "resnet eval -F none.py", "resnet eval -F latin.py"}},
		{Name: "backtrace", Lines: []string{"resnet backtrace", "resnet backtrace --locals 5000010",
			"resnet backtrace --all", "resnet backtrace --json", "hung backtrace", "hung backtrace --json",
			"done backtrace", "mute backtrace"}},
		{Name: "backtrace-wrong", Lines: []string{"resnet backtrace main", "resnet backtrace --timeout 0",
			"resnet backtrace 1 2"}},
		{Name: "tensors", Lines: []string{"resnet tensors", "resnet tensors --all --top 1",
			"resnet tensors --last --json",
			"done tensors", "mute tensors"}},
		{Name: "tensors-wrong", Lines: []string{"resnet tensors --top -1", "resnet tensors --last --deep",
			"resnet tensors --rank 9", "resnet tensors --top many", "tensors resnet"}},
		{Name: "where", Lines: []string{"resnet where", "resnet where --json", "done where", "mute where", "where 7",
			"resnet where --jsn"}},
		{Name: "interactive", Real: true, Lines: []string{"interactive < lines.txt", "none interactive < lines.txt",
			"interactive resnet"}},
	}, Files: map[string]string{"heap.sql": heap + ";\n", "code.py": "len(all_losses)\n", "latin.py": "'\xe9'\n",
		"lines.txt": "SELECT 1;\nhelp\nlaek\neval 'x\n\\nonsense\nexit\n"}})
}

// TestGoldenOfManyMachines: the same commands, asked of the sessions of many machines.
func TestGoldenOfManyMachines(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{ask.Commands}, Fleet: golden.Machines(t), Cases: []golden.Case{
		{Name: "hub", Lines: []string{"hub list", "hub list --json", "hub where", "hub backtrace",
			"hub tensors --last --top 1", "hub eval --all 'len(all_losses)'", "hub eval 1",
			"job=llama query 'SELECT step FROM python.steps WHERE step IN (1, 2)'",
			"job=over query 'SELECT max(step) AS n FROM python.steps'",
			"job=llama node=n1 query 'SELECT count(*) AS n FROM python.steps'", "hub tables events",
			"hub node=n1 --strict tables events", "job=bert where"}},
		{Name: "hub-json", Lines: []string{"job=llama where --json", "hub eval --all --json 'len(all_losses)'"}},
		{Name: "hub-wrong", Lines: []string{"hub query -o steps.parquet 'SELECT 1'",
			"hub query --since 2h 'SELECT 1'", "hub node=n3 where", "lake=none where", "job=bert query 'SELECT 1'"}},
	}})
}
