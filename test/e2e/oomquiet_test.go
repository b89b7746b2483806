package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// healthyRuns is how many healthy programs are run; each takes 10 s to a minute.
func healthyRuns() int { return env.Times(1, 20) }

type healthyProgram struct {
	Name, File, Label string
	Measured          struct {
		Anon   []float64 `json:"anon_first_last_max"` // MB of 10^6 bytes
		Worker []float64 `json:"worker_private_first_last_max"`
	} `json:"measured_mb"`
}

// limit in bytes under which the program uses some 80 % at most. Measured beside what the manifest tells: 50 MB for
// page tables, the agent and the kernel.
func (p healthyProgram) limit() int64 {
	mb := p.Measured.Anon[2] + 50
	if len(p.Measured.Worker) > 0 {
		mb += 2 * p.Measured.Worker[2]
	}
	return int64(mb/0.8) * 1e6
}

func healthyPrograms(t *testing.T) (dir string, list []healthyProgram) {
	t.Helper()
	dir = filepath.Join(env.Checkout(), "test", "accuracy", "corpus")
	b, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Programs []healthyProgram }
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Programs {
		if p.Label == "healthy" {
			list = append(list, p)
		}
	}
	return dir, list
}

// Real trainings that have nothing wrong with them, in a cgroup that they fill to four fifths, watched from the start
// on with the window that is the default and with a short one.
func TestNoOOMAlarmOnHealthyRuns(t *testing.T) {
	env.Long(t, "the corpus' healthy trainings, in real time")
	python := env.Torch(t).Path
	dir, programs := healthyPrograms(t)
	alarms := map[string]int{}
	for i := range healthyRuns() {
		p := programs[i%len(programs)]
		w := newWorld(t)
		s := filepath.Join(w.home, "s")
		cg := memoryCgroup(t, p.limit())
		run := w.start("memgauge", append([]string{"run", "--quiet", "--session", s, "--"},
			inCgroup(cg, python, filepath.Join(dir, p.File))...)...)
		until(t, "the session", func() bool { return exists(filepath.Join(s, "api.sock")) })
		watches := map[string]*background{}
		for _, window := range []string{"30", "10"} {
			watches[window] = w.start("memgauge", "oom", "--session", s, "--monitor", "--interval", "0.1", "--window",
				window, "--output", "oom"+window+".json")
		}
		<-run.done
		if code := exitCode(run.ProcessState); code != 0 {
			t.Fatalf("%s: exit %d\n%s", p.Name, code, run.err)
		}
		for window, watch := range watches {
			<-watch.done
			r := readReport(t, filepath.Join(w.home, "oom"+window+".json"))
			t.Logf("%s, window %s s: peak %.0f %% of the limit, %d readings, exit %d", p.Name, window, r.Peak,
				r.Samples, exitCode(watch.ProcessState))
			if code := exitCode(watch.ProcessState); code != 0 || strings.Contains(watch.out.String(), "[WARNING]") {
				alarms[window]++
				t.Errorf("%s, window %s s: exit %d\n%s%s", p.Name, window, code, watch.out, watch.err)
			}
			if r.Samples < 50 || r.Peak < 60 || r.Peak > 85 {
				t.Errorf("%s: %d readings, at most %.0f %% of the limit: this says nothing", p.Name, r.Samples, r.Peak)
			}
		}
	}
	t.Logf("%d runs: %d alarms at a window of 30 s, %d at 10 s", healthyRuns(), alarms["30"], alarms["10"])
}

// hostReport is what a watch saw of the host.
type hostReport struct {
	Samples int
	Peak    float64 // percent of the limit
}

func readReport(t *testing.T, file string) (r hostReport) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Devices map[string]struct {
			Statistics struct {
				Samples int     `json:"samples_count"`
				Peak    float64 `json:"max_utilization"`
			} `json:"statistics"`
		} `json:"devices"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	return hostReport{doc.Devices["host"].Statistics.Samples, doc.Devices["host"].Statistics.Peak}
}
