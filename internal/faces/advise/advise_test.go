package advise

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/memgauge/memgauge/internal/faces/doctor"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/test/env"
)

var yamlKey = regexp.MustCompile(`(?m)^ *([a-z_]+):`)

func keys(text string) (out []string) {
	for _, m := range yamlKey.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// safe_training.yaml has exactly the keys of the guide's example, in its order.
func TestYAMLHasTheGuidesKeys(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(env.Checkout(), "testdata/seeds/memory-leak-fix-guide.zh-TW.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
		want = append(want, keys(block[1])...)
	}
	v := ForMachine(doctor.Figures{CPUs: 8, GPUs: 1, GPUFreeBytes: 4 << 30, FreeBytes: 16 << 30},
		doctor.Suggestions{Workers: 7, BatchSize: 4})
	if got := keys(v.YAML("here")); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("keys %v, the guide has %v", got, want)
	}
	// the guide's machine gets the guide's values
	if want := (Values{4, 2, 16, 4, 2, 512, 8, 4}); v != want {
		t.Errorf("for 4 GiB %+v, the guide has %+v", v, want)
	}
}

func known(n int64) *int64 { return &n }

// ofSteps is a session of 300 steps.
func ofSteps(e evidence) *Report {
	e.steps = []stepsRow{{300}}
	return e.judge()
}

func TestNothingToChange(t *testing.T) {
	r := ofSteps(evidence{
		devices: []deviceRow{{Device: "cuda:0", Reserved: 60 << 30, Peak: 55 << 30, Floor: 20 << 30,
			Total: known(80 << 30)}},
		heaps:   []heapRow{{PID: 1, Free: 20 << 20, InUse: 500 << 20, Readings: 300}},
		workers: []workerRow{{4, 300 << 20, 8}}, cgroup: []limitRow{{8 << 30, 64 << 30}},
		kinds: []kindRow{{"cuda:0", "float32", 20 << 30, 3}},
		leaks: []detect.Finding{{Class: "retained_tensors"}},
	})
	if len(r.Advice) != 0 {
		t.Errorf("a healthy session is advised %+v", r.Advice)
	}
}

func TestAdviceFollowsFromFigures(t *testing.T) {
	r := ofSteps(evidence{
		devices: []deviceRow{{Device: "cuda:0", Reserved: 78 << 30, Peak: 70 << 30, Floor: 20 << 30,
			Total: known(80 << 30)}},
		heaps:   []heapRow{{PID: 1, Free: 400 << 20, InUse: 500 << 20, Readings: 300}},
		blocks:  []blockRow{{Family: "layers.*", Count: 12, Keeps: 12 << 30, Most: 1 << 30, Device: "cuda:0"}},
		workers: []workerRow{{4, 300 << 20, 8}}, cgroup: []limitRow{{60 << 30, 64 << 30}},
		kinds: []kindRow{{"cuda:0", "float32", 20 << 30, 3}, {"cuda:0", "int64", 1 << 20, 2}},
		leaks: []detect.Finding{{Class: "worker_growth"}, {Class: "worker_growth"}},
	})
	want := map[string]int64{"batch_size": 25 << 30, "precision": 25 << 30, "malloc": 400 << 20,
		"activation checkpointing": 11 << 30,
		"num_workers":              600 << 20, "persistent_workers": -1}
	for _, a := range r.Advice {
		saves, ok := want[a.Setting]
		if !ok {
			t.Errorf("advice on %s without figures, or twice", a.Setting)
		}
		if (a.Saves == nil) != (saves < 0) || a.Saves != nil && *a.Saves != saves {
			t.Errorf("%s saves %v, want %d", a.Setting, a.Saves, saves)
		}
		if a.Costs == "" || a.Sure == "" || a.Evidence == "" || a.Set.Plain == "" || a.Set.Lightning == "" ||
			a.Set.HuggingFace == "" {
			t.Errorf("%s is told in part: %+v", a.Setting, a)
		}
		delete(want, a.Setting)
	}
	if len(want) > 0 {
		t.Errorf("nothing is said of %v", want)
	}
}

// A GPU that is full, with what 16 bits can't save any more; workers that each epoch starts anew, where they grow and
// where they don't.
func TestPrecisionAndWorkers(t *testing.T) {
	full := []deviceRow{{Device: "cuda:0", Reserved: 78 << 30, Peak: 70 << 30, Floor: 20 << 30, Total: known(80 << 30)}}
	for name, c := range map[string]struct {
		e    evidence
		want []string
	}{
		"no census": {evidence{devices: full}, []string{"batch_size"}},
		"mixed already": {evidence{devices: full, kinds: []kindRow{{"cuda:0", "float32", 9, 3},
			{"cuda:0", "bfloat16", 9, 1}}},
			[]string{"batch_size"}},
		"another GPU": {evidence{devices: full, kinds: []kindRow{{"cuda:1", "float32", 9, 3}}},
			[]string{"batch_size"}},
		"started anew": {evidence{workers: []workerRow{{2, 300 << 20, 10}}}, []string{"persistent_workers"}},
		"persist":      {evidence{workers: []workerRow{{2, 300 << 20, 2}}}, nil},
		"no room": {evidence{workers: []workerRow{{1, 300 << 20, 10}},
			cgroup: []limitRow{{9 << 30, 10 << 30}}}, nil},
		"they grow": {evidence{workers: []workerRow{{2, 300 << 20, 10}},
			leaks: []detect.Finding{{Class: "worker_growth"}}}, []string{"persistent_workers"}},
	} {
		var got []string
		for _, a := range ofSteps(c.e).Advice {
			got = append(got, a.Setting)
			if name == "they grow" && a.Change != "persistent_workers=False" {
				t.Errorf("%s: %s", name, a.Change)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: advice on %v, want %v", name, got, c.want)
		}
	}
}

func TestTooFewStepsForAdvice(t *testing.T) {
	e := evidence{steps: []stepsRow{{5}}, heaps: []heapRow{{PID: 1, Free: 4 << 30, InUse: 1, Readings: 5}}}
	if r := e.judge(); len(r.Advice) != 0 || len(r.Notes) == 0 {
		t.Errorf("5 steps support %+v, notes %v", r.Advice, r.Notes)
	}
}
