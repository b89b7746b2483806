package detect

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/model"
)

// growing is a series over n steps, read at each.
func growing(n int, rate float64) Series {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	s := Series{}
	for i := range n {
		s.Steps, s.Bytes = append(s.Steps, float64(i+1)), append(s.Bytes, 1e9+rate*float64(i)+1e4*r.NormFloat64())
	}
	return s
}

// ranks of a job of four, of which the second leaks.
func fourRanks() Input {
	in := Input{Steps: 1000, Host: Limit{"host 64 GiB", 64 << 30, 8 << 30}}
	for rank := range 4 {
		rate := 0.0
		if rank == 1 {
			rate = 1e6
		}
		in.Processes = append(in.Processes, Process{PID: 100 + rank, Rank: rank, Pace: 0.1, Heap: growing(1000, rate), Anon: growing(1000, 0)})
	}
	return in
}

func TestRanksDisagree(t *testing.T) {
	r := Run(fourRanks())
	if r.Verdict != Leak || len(r.Findings) != 4 || r.Findings[0].Rank != 1 {
		t.Fatalf("%s, %d findings, the first of rank %d", r.Verdict, len(r.Findings), r.Findings[0].Rank)
	}
	want := "ranks disagree: host heap leaks on rank 1, not on ranks 0, 2, 3"
	if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], want) {
		t.Errorf("warnings %q, want %q", r.Warnings, want)
	}
	in := fourRanks()
	for i := range in.Processes {
		in.Processes[i].Heap = growing(1000, 1e6)
	}
	if r := Run(in); r.Verdict != Leak || len(r.Warnings) != 0 {
		t.Errorf("all leak: %s, warnings %q", r.Verdict, r.Warnings)
	}
}

// TestOrderOfRanks: the report is the same in whatever order processes come.
func TestOrderOfRanks(t *testing.T) {
	in := fourRanks()
	want := Run(in)
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		r.Shuffle(len(in.Processes), func(i, j int) { in.Processes[i], in.Processes[j] = in.Processes[j], in.Processes[i] })
		if got := Run(in); !reflect.DeepEqual(got, want) {
			t.Fatalf("another order gives another report:\n%+v\n%+v", got, want)
		}
	}
}

// leaky is a training whose heap grows by 1 MB a step, with censuses at steps 200, 500 and 900 of objects.
func leaky(objects func(census, step int64) []model.ObjectGroup) Process {
	p := Process{PID: 7, Rank: -1, Pace: 0.1, Heap: growing(1000, 1e6), Anon: growing(1000, 1e6)}
	for i, step := range []int64{200, 500, 900} {
		for _, o := range objects(int64(i+1), step) {
			o.Census, o.Step = int64(i+1), step
			p.Objects = append(p.Objects, o)
		}
	}
	return p
}

func first(t *testing.T, p Process) Finding {
	t.Helper()
	r := Run(Input{Steps: 1000, Processes: []Process{p}})
	if r.Verdict != Leak {
		t.Fatalf("%s", r.Verdict)
	}
	return r.Findings[0]
}

func TestClasses(t *testing.T) {
	list := func(_, step int64) model.ObjectGroup {
		return model.ObjectGroup{Evidence: "container", Type: "list", Holder: "__main__.kept", Count: 1, Length: step, Bytes: step * 600_000, Site: "a.py:3"}
	}
	graph := func(length int64) model.ObjectGroup {
		return model.ObjectGroup{Evidence: "graph", Type: "torch.Tensor", Holder: "__main__.kept[*]", Count: length, Length: length * 5, Bytes: model.Null, Site: "a.py:3"}
	}
	current := func(census int64) model.ObjectGroup { // of the step that goes on: now more of it is there, now less
		return model.ObjectGroup{Evidence: "graph", Type: "torch.Tensor", Holder: "__main__.losses[*]", Count: 8, Length: 80 + census, Bytes: model.Null, Site: "a.py:9"}
	}
	cycle := model.ObjectGroup{Evidence: "cycle", Type: "__main__.Episode", Holder: "Episode.steps[*].episode", Count: 16, Length: model.Null, Bytes: 2_000_000, Site: "a.py:5"}
	off, on := cycle, cycle
	off.Detail, on.Detail = "12 objects hold each other; 300 young objects wait for the collector, which is off", "… which is on"
	native := model.ObjectGroup{Evidence: "native", Type: "call", Holder: "__main__.noise", Count: 1, Length: model.Null, Bytes: model.Null, Site: "a.py:7", Detail: "libc.malloc"}
	type objects = []model.ObjectGroup
	for name, c := range map[string]struct {
		objects func(census, step int64) []model.ObjectGroup
		class   Class
		holder  string
		site    string
	}{
		"list of objects":          {func(c, s int64) []model.ObjectGroup { return objects{list(c, s), current(c)} }, RetainedObjects, "__main__.kept", "a.py:3"},
		"list that keeps graphs":   {func(c, s int64) []model.ObjectGroup { return objects{list(c, s), graph(s)} }, AutogradGraph, "__main__.kept", "a.py:3"},
		"garbage, collector off":   {func(c, s int64) []model.ObjectGroup { return objects{off, current(c)} }, GCCycles, "Episode.steps[*].episode", "a.py:5"},
		"garbage beside a list":    {func(c, s int64) []model.ObjectGroup { return objects{off, list(c, s)} }, RetainedObjects, "__main__.kept", "a.py:3"},
		"garbage that's collected": {func(c, s int64) []model.ObjectGroup { return objects{on, native} }, NativeHeap, "__main__.noise", "a.py:7"},
	} {
		t.Run(name, func(t *testing.T) {
			f := first(t, leaky(c.objects))
			if f.Class != c.class || f.Holder != c.holder || f.Site != c.site {
				t.Errorf("%s held by %q at %q; want %s, %q, %q", f.Class, f.Holder, f.Site, c.class, c.holder, c.site)
			}
		})
	}
}

// TestHeapThatIsReadNoMore: when the heap has grown too slow to be read, what was read of it doesn't speak for the rest of the run.
func TestHeapThatIsReadNoMore(t *testing.T) {
	p := Process{PID: 7, Rank: -1, Heap: growing(1000, 1e6).until(300), Anon: growing(1000, 1.4e6)}
	r := Run(Input{Steps: 1000, Processes: []Process{p}})
	if f := r.Findings[0]; r.Verdict != Leak || f.End < 900 || f.Rate < 0.9e6 || f.Rate > 1.1e6 {
		t.Errorf("%s, %.0f a step until %.0f", r.Verdict, f.Rate, f.End)
	}
	p.Anon = Series{p.Anon.Steps, growing(1000, 0).Bytes}
	if r := Run(Input{Steps: 1000, Processes: []Process{p}}); r.Verdict == Leak {
		t.Errorf("it did not grow after step 300: %v", r.Findings[0].Growth)
	}
}

// TestWorkerOfFewReadings: a worker that seems to grow, read too seldom for a verdict, leaves the run undecided; one that doesn't, doesn't.
func TestWorkerOfFewReadings(t *testing.T) {
	for rate, want := range map[float64]Verdict{0: Healthy, 1e6: Undecided} {
		worker := Process{PID: 8, Rank: -1, Worker: true}
		for i := range 11 {
			worker.Anon.Steps, worker.Anon.Bytes = append(worker.Anon.Steps, float64(i)*60), append(worker.Anon.Bytes, 3e8+rate*float64(i)*60+1e4*float64(i*i%3))
		}
		r := Run(Input{Steps: 600, Processes: []Process{{PID: 7, Rank: -1, Heap: growing(600, 0), Anon: growing(600, 0)}, worker}})
		if r.Verdict != want {
			t.Errorf("%g B a step: %s, want %s", rate, r.Verdict, want)
		}
	}
}

// TestBoundedContainer: what fills a deque with a maxlen is no leak, unless memory ends before.
func TestBoundedContainer(t *testing.T) {
	p := leaky(func(_, step int64) []model.ObjectGroup {
		return []model.ObjectGroup{{Evidence: "container", Type: "collections.deque", Holder: "__main__.replay", Count: 1, Length: step, Bytes: step * 900_000, Detail: "of builtins.tuple; 2000 at most"}}
	})
	r := Run(Input{Steps: 1000, Processes: []Process{p}, Host: Limit{"host 64 GiB", 64 << 30, 8 << 30}})
	if f := r.Findings[0]; r.Verdict != Undecided || f.Needs < 1000 || f.Needs > 1200 || !strings.Contains(r.Missing, "fills up") {
		t.Errorf("%s: %s, needs %.0f", r.Verdict, r.Missing, f.Needs)
	}
	if r := Run(Input{Steps: 1000, Processes: []Process{p}, Host: Limit{"host 9 GiB", 9 << 30, 8.9 * (1 << 30)}}); r.Verdict != Leak {
		t.Errorf("memory ends before it is full: %s", r.Verdict)
	}
}
