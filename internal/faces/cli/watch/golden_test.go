package watch_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/watch"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/test/fakesession"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	sessions := golden.Job(t)
	sound := fakesession.Finished(t)
	sound.Judgement.Verdict, sound.Judgement.Findings = detect.Healthy, sound.Judgement.Findings[1:2]
	sound.Judgement.Class, sound.Judgement.Warnings = "", nil
	sound.Verdict = "healthy"
	sessions["sound"] = sound
	lower := `{"schema_version": 1, "session": "resnet", "verdict": "healthy", "peaks_bytes": {"cuda:0": 1073741824}}`
	golden.Run(t, golden.Table{Families: []app.Family{watch.Commands}, Sessions: sessions, Cases: []golden.Case{
		{Name: "leak", Lines: []string{"resnet leak", "done leak", "resnet leak --json",
			"resnet leak --threshold 500",
			"resnet leak --check --threshold 2000", "resnet leak --watch",
			"resnet leak --enable-tracking --duration 2m -o leak.json",
			"mute leak"}},
		{Name: "leak-wrong", Lines: []string{"resnet leak --threshold -1", "resnet leak --interval soon",
			"leak resnet",
			"resnet leak --watch --until 7", "resnet leak --devices 9", "resnet leak --job bert",
			"resnet leak --jsno"}},
		{Name: "oom", Lines: []string{"resnet oom", "done oom", "resnet oom --json", "mute oom"}},
		{Name: "oom-wrong", Lines: []string{"resnet oom --threshold 200", "resnet oom --threshold 95 --critical 90",
			"resnet oom --devices 9", "oom resnet"}},
		{Name: "profile", Lines: []string{"resnet profile", "done profile --output profile.json --plot profile.svg",
			"mute profile", "resnet profile --interval 0.0001", "resnet profile --plot profile.gif",
			"resnet profile now"}},
		{Name: "fragment", Lines: []string{"resnet fragment", "resnet fragment --json", "done fragment",
			"mute fragment",
			"resnet fragment --devices x", "resnet fragment --interval"}},
		{Name: "monitor", Lines: []string{"done monitor", "done monitor --json --devices 0", "mute monitor",
			"done monitor --threshold much", "done monitor --devices 7"}},
		{Name: "baseline", Lines: []string{"sound baseline save base.json", "cat base.json",
			"sound baseline check base.json",
			"sound baseline check base.json --json", "sound baseline check lower.json",
			"done baseline save other.json",
			"done baseline check base.json", "mute baseline save other.json", "done baseline check none.json",
			"done baseline check text.json", "done baseline check base.json --tolerance most",
			"done baseline save a b",
			"done baseline", "done baseline chekc"}},
		{Name: "report", Lines: []string{"done report --json", "mute report", "report done",
			"done report --jsno"}},
		{Name: "web-wrong", Lines: []string{"web --snapshot none.pickle", "web --snapshot .", "web --addr nowhere",
			"web --addr 0.0.0.0:0",
			"web --addr example.org:80", "nobody web",
			"web --tls-cert cert.pem", "web --token-file short", "web resnet"}},
		{Name: "distributed-wrong", Lines: []string{"distributed --role boss", "distributed --port 99999",
			"distributed --role worker --token-file none", "distributed --interval 0"}},
		{Name: "feed-wrong", Lines: []string{"feed --window x", "feed now"}},
	}, Files: map[string]string{"text.json": "no baseline", "lower.json": lower, "short": "1234"}})
}

// TestGoldenOfManyMachines: the same commands, asked of the sessions of many machines.
func TestGoldenOfManyMachines(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{watch.Commands}, Fleet: golden.Machines(t), Cases: []golden.Case{
		{Name: "hub", Lines: []string{"hub leak", "job=llama leak --threshold 500", "hub node=n1 leak",
			"job=over leak", "hub oom", "hub node=n1 oom"}},
		{Name: "hub-json", Lines: []string{"job=llama leak --json"}},
		{Name: "hub-wrong", Lines: []string{"hub leak --threshold 1 -o leak.json", "hub oom --plot",
			"hub report --json -o report.json", "hub report", "hub fragment", "job=bert leak", "job=bert web",
			"lake=none oom", "lake=none report", "hub leak --job llama"}},
	}})
}
