package detect

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
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
	in := Input{Steps: 1000, Host: Limit{Name: "host 64 GiB", Bytes: 64 << 30, Used: 8 << 30}}
	for rank := range 4 {
		rate := 0.0
		if rank == 1 {
			rate = 1e6
		}
		in.Processes = append(in.Processes, Process{PID: 100 + rank, Rank: rank, Pace: 0.1, Heap: growing(1000, rate),
			Anon: growing(1000, 0)})
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
		r.Shuffle(len(in.Processes), func(i, j int) {
			in.Processes[i], in.Processes[j] = in.Processes[j],
				in.Processes[i]
		})
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

// TestOneOfSeveralLines: a line that was chosen among several is told as such.
func TestOneOfSeveralLines(t *testing.T) {
	for detail, want := range map[string]string{"of float": "a.py:3",
		"of float; one of 2 lines: 3, 9": "a.py:3 (one of 2 lines)"} {
		f := first(t, leaky(func(_, step int64) []model.ObjectGroup {
			return []model.ObjectGroup{{Evidence: "container", Type: "list", Holder: "__main__.kept", Count: 1,
				Length: step, Bytes: step * 600_000, Site: "a.py:3", Detail: detail}}
		}))
		told := strings.Contains(strings.Join(f.Evidence, "\n"), "2 lines may add to it, and which does is not known")
		if f.Site != "a.py:3" || f.Created() != want || told != (f.Lines == 2) {
			t.Errorf("%q: %q at %q, %q", detail, f.Created(), f.Site, f.Evidence)
		}
	}
}

func TestClasses(t *testing.T) {
	list := func(_, step int64) model.ObjectGroup {
		return model.ObjectGroup{Evidence: "container", Type: "list", Holder: "__main__.kept", Count: 1, Length: step,
			Bytes: step * 600_000, Site: "a.py:3"}
	}
	graph := func(length int64) model.ObjectGroup {
		return model.ObjectGroup{Evidence: "graph", Type: "torch.Tensor", Holder: "__main__.kept[*]", Count: length,
			Length: length * 5, Bytes: model.Null, Site: "a.py:3"}
	}
	current := func(census int64) model.ObjectGroup { // of the step that goes on: now more of it is there, now less
		return model.ObjectGroup{Evidence: "graph", Type: "torch.Tensor", Holder: "__main__.losses[*]", Count: 8,
			Length: 80 + census, Bytes: model.Null, Site: "a.py:9"}
	}
	cycle := model.ObjectGroup{Evidence: "cycle", Type: "__main__.Episode", Holder: "Episode.steps[*].episode",
		Count: 16, Length: model.Null, Bytes: 2_000_000, Site: "a.py:5"}
	off, on := cycle, cycle
	off.Detail, on.Detail = "12 objects hold each other; 300 young objects wait for the collector, which is off",
		"… which is on"
	native := model.ObjectGroup{Evidence: "native", Type: "call", Holder: "__main__.noise", Count: 1,
		Length: model.Null, Bytes: model.Null, Site: "a.py:7", Detail: "libc.malloc"}
	type objects = []model.ObjectGroup
	for name, c := range map[string]struct {
		objects func(census, step int64) []model.ObjectGroup
		class   Class
		holder  string
		site    string
	}{
		"list of objects": {func(c, s int64) []model.ObjectGroup { return objects{list(c, s), current(c)} },
			RetainedObjects, "__main__.kept", "a.py:3"},
		"list that keeps graphs": {func(c, s int64) []model.ObjectGroup { return objects{list(c, s), graph(s)} },
			AutogradGraph, "__main__.kept", "a.py:3"},
		"garbage, collector off": {func(c, s int64) []model.ObjectGroup { return objects{off, current(c)} }, GCCycles,
			"Episode.steps[*].episode", "a.py:5"},
		"garbage beside a list": {func(c, s int64) []model.ObjectGroup { return objects{off, list(c, s)} },
			RetainedObjects, "__main__.kept", "a.py:3"},
		"garbage that's collected": {func(c, s int64) []model.ObjectGroup { return objects{on, native} }, NativeHeap,
			"__main__.noise", "a.py:7"},
	} {
		t.Run(name, func(t *testing.T) {
			f := first(t, leaky(c.objects))
			if f.Class != c.class || f.Holder != c.holder || f.Site != c.site {
				t.Errorf("%s held by %q at %q; want %s, %q, %q", f.Class, f.Holder, f.Site, c.class, c.holder, c.site)
			}
		})
	}
}

// TestHeapThatIsReadNoMore: when the heap has grown too slow to be read, what was read of it doesn't speak for the rest
// of the run.
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

// TestWorkerOfFewReadings: a worker that seems to grow, read too seldom for a verdict, leaves the run undecided; one
// that doesn't, doesn't.
func TestWorkerOfFewReadings(t *testing.T) {
	for rate, want := range map[float64]Verdict{0: Healthy, 1e6: Undecided} {
		worker := Process{PID: 8, Rank: -1, Worker: true}
		for i := range 11 {
			worker.Anon.Steps, worker.Anon.Bytes = append(worker.Anon.Steps, float64(i)*60),
				append(worker.Anon.Bytes, 3e8+rate*float64(i)*60+1e4*float64(i*i%3))
		}
		r := Run(Input{Steps: 600, Processes: []Process{{PID: 7, Rank: -1, Heap: growing(600, 0),
			Anon: growing(600, 0)}, worker}})
		if r.Verdict != want {
			t.Errorf("%g B a step: %s, want %s", rate, r.Verdict, want)
		}
	}
}

// TestBoundedContainer: what fills a deque with a maxlen is no leak, unless memory ends before.
func TestBoundedContainer(t *testing.T) {
	p := leaky(func(_, step int64) []model.ObjectGroup {
		return []model.ObjectGroup{{Evidence: "container", Type: "collections.deque", Holder: "__main__.replay",
			Count: 1, Length: step, Bytes: step * 900_000, Detail: "of builtins.tuple; 2000 at most"}}
	})
	r := Run(Input{Steps: 1000, Processes: []Process{p},
		Host: Limit{Name: "host 64 GiB", Bytes: 64 << 30, Used: 8 << 30}})
	if f := r.Findings[0]; r.Verdict != Undecided || f.Needs < 1000 || f.Needs > 1200 ||
		!strings.Contains(r.Missing, "fills up") {
		t.Errorf("%s: %s, needs %.0f", r.Verdict, r.Missing, f.Needs)
	}
	if r := Run(Input{Steps: 1000, Processes: []Process{p},
		Host: Limit{Name: "host 9 GiB", Bytes: 9 << 30, Used: 8.9 * (1 << 30)}}); r.Verdict != Leak {
		t.Errorf("memory ends before it is full: %s", r.Verdict)
	}
}

// TestNamedBoundStands: a named holder with a bound is no leak, whatever share of the growth it explains, unless
// something without a bound explains as much; a tensor counts with what it takes beside its data.
func TestNamedBoundStands(t *testing.T) {
	rows := func(each, other int64) Process {
		return leaky(func(_, step int64) []model.ObjectGroup {
			list := []model.ObjectGroup{{Evidence: "container", Type: "collections.deque", Holder: "__main__.replay",
				Count: 1, Length: step, Bytes: step * each, Detail: "of builtins.tuple; 2000 at most"}}
			if other > 0 {
				list = append(list, model.ObjectGroup{Evidence: "container", Type: "list", Holder: "__main__.kept",
					Count: 1, Length: step, Bytes: step * other, Site: "a.py:3"})
			}
			return list
		})
	}
	host := Limit{Name: "host 64 GiB", Bytes: 64 << 30, Used: 8 << 30}
	judged := func(p Process) Report { return Run(Input{Steps: 1000, Processes: []Process{p}, Host: host}) }
	if r := judged(rows(350_000, 0)); r.Verdict != Undecided || r.Findings[0].Why != FillsUp {
		t.Errorf("a third of the growth: %s %q", r.Verdict, r.Missing)
	}
	if r := judged(rows(450_000, 300_000)); r.Verdict != Leak || r.Findings[0].Holder != "__main__.kept" {
		t.Errorf("beside one without a bound: %s, %q", r.Verdict, r.Findings[0].Holder)
	}
	table := leaky(func(_, step int64) []model.ObjectGroup {
		return []model.ObjectGroup{{Evidence: "container", Type: "list", Holder: "__main__.table", Count: 1,
			Length: 6000, Bytes: step * 450_000, Detail: "of builtins.list; 6000 at most"}}
	})
	if r := judged(table); r.Verdict != Leak {
		t.Errorf("a table of lists that grow: %s %q", r.Verdict, r.Missing)
	}
	small := leaky(func(_, step int64) []model.ObjectGroup { return nil })
	small.Heap, small.Anon = growing(1000, 8*(64+besideData)), growing(1000, 8*(64+besideData))
	for i, step := range []int64{200, 500, 900} {
		small.Tensors = append(small.Tensors, model.TensorGroup{Census: int64(i + 1), Step: step, Role: "tensor",
			Device: "cpu", Holder: "__main__.states[*]", Site: "a.py:3", Count: 8 * step, Bytes: 8 * step * 64})
	}
	if f := first(t, small); f.Holder != "__main__.states" {
		t.Errorf("tensors of 64 bytes are held by %q", f.Holder)
	}
}

// TestPromisedWaitIsKept: what is told to be missing shrinks by the steps that are made, until it is over.
func TestPromisedWaitIsKept(t *testing.T) {
	for age := 10.0; age < 10_000; age += 7 {
		if now, then := promised(age), promised(age+7); then != now-7 && now > 7 {
			t.Fatalf("at %.0f steps %.0f more, at %.0f still %.0f", age, now, age+7, then)
		}
	}
}

// TestHolesAreTold: what the process grows by is told beside what is kept, where it is much more.
func TestHolesAreTold(t *testing.T) {
	p := leaky(func(_, step int64) []model.ObjectGroup { return nil })
	has := func(f Finding) bool {
		return slices.ContainsFunc(f.Evidence, func(e string) bool { return strings.Contains(e, "because of holes") })
	}
	if f := first(t, p); has(f) {
		t.Errorf("there are none: %q", f.Evidence)
	}
	p.Anon = growing(1000, 3e6)
	if f := first(t, p); !has(f) {
		t.Errorf("two thirds are holes: %q", f.Evidence)
	}
}

// TestWaitsForTheFirstCensus: growth that no census has looked at yet is undecided while one may still come; a list
// that the program's lines guard may fill up, for longer than another.
func TestWaitsForTheFirstCensus(t *testing.T) {
	guarded := leaky(func(_, step int64) []model.ObjectGroup {
		return []model.ObjectGroup{{Evidence: "container", Type: "list", Holder: "__main__.groups", Count: 1,
			Length: step, Bytes: model.Null, Detail: "of dict", Site: "a.py:3"}}
	})
	guarded.Bounds = map[string]Bound{"__main__.groups": {Kind: Bounded}}
	unseen := func(pace float64) Process {
		return Process{PID: 7, Rank: -1, Pace: pace, Heap: growing(1000, 1e5), Anon: growing(1000, 1e5)}
	}
	for name, c := range map[string]struct {
		p    Process
		over bool
		want Verdict
	}{
		"young":           {unseen(0.001), false, Undecided},
		"young, and over": {unseen(0.001), true, Leak},
		"old enough":      {unseen(0.01), false, Leak},
		"guarded":         {guarded, false, Undecided},
	} {
		if r := Run(Input{Steps: 1000, Processes: []Process{c.p}, Host: room, Over: c.over}); r.Verdict != c.want {
			t.Errorf("%s: %s, %s", name, r.Verdict, r.Line())
		}
	}
}

// TestTensorsOfAContainerThatNoCensusSaw: a census that was cut short has seen tensors, and not what they lie in. What
// the program's lines say of that holds for them.
func TestTensorsOfAContainerThatNoCensusSaw(t *testing.T) {
	for name, c := range map[string]struct {
		bound BoundKind
		want  Why
		doubt float64 // at most
	}{
		"unknown":         {BoundUnknown, Steady, 0.2},
		"bounded":         {Bounded, Guarded, 0},
		"without a bound": {Unbounded, Steady, 0.05},
	} {
		p := Process{PID: 7, Rank: -1, Pace: 0.01, Heap: growing(250, 1e5), Anon: growing(250, 1e5),
			Bounds: map[string]Bound{"main().table": {Kind: c.bound}},
			Tensors: []model.TensorGroup{{Census: 1, Step: 200, Holder: "main().table[*][*]", Role: "other",
				Device: "cpu", Count: 400, Bytes: 200 * 1e5, Fresh: 400, Site: "a.py:3"}}}
		if f := runOf(p).Findings[0]; f.Why != c.want || f.Doubt > c.doubt {
			t.Errorf("%s: %s, doubt %.2f", name, f.Reason, f.Doubt)
		}
	}
}

// TestABoundThatCountsTell: the census that was cut short has seen what lies in a deque, and the counts since then have
// seen the deque.
func TestABoundThatCountsTell(t *testing.T) {
	p := Process{PID: 7, Rank: -1, Pace: 0.01, Heap: growing(500, 1e4), Anon: growing(500, 1e4),
		Tensors: []model.TensorGroup{{Census: 1, Step: 170, Holder: "main().rows[*][*]", Role: "other", Device: "cpu",
			Count: 8900, Bytes: 170 * 1e4, Fresh: 8900, Site: "a.py:3"}}}
	for _, step := range []int64{250, 350, 450} {
		p.Objects = append(p.Objects, model.ObjectGroup{Census: 1, Step: step, Evidence: Count,
			Type: "collections.deque", Holder: "main().rows", Count: 1, Length: 8 * step, Bytes: model.Null,
			Detail: "of list; 5200 at most"})
	}
	if f := runOf(p).Findings[0]; f.Why != FillsUp {
		t.Errorf("%s", f.Reason)
	}
}

// TestATensorSeenOnce: a large tensor of the step that was going on at the only census that saw the function is not
// named before what has grown by count.
func TestATensorSeenOnce(t *testing.T) {
	p := leaky(func(census, step int64) []model.ObjectGroup {
		return []model.ObjectGroup{{Evidence: "container", Type: "function", Holder: "atexit._callbacks", Count: 1,
			Length: 10 + step/10, Bytes: model.Null, Detail: "of ?", Site: "a.py:3"}}
	})
	seen := p.Objects[0]
	p.Tensors = []model.TensorGroup{{Census: seen.Census, Step: seen.Step, Holder: "main().logits", Site: "a.py:9",
		Count: 1, Bytes: seen.Step * 1_000_000, Device: "cpu"}}
	if f := first(t, p); f.Holder != "atexit._callbacks" {
		t.Errorf("held by %s, %s", f.Holder, f.Held)
	}
}

// TestHolders: a holder is the program's own, goes on growing, and explains the rate; what a library's running function
// has at the moment of a census, a variable of the step that goes on, and what is emptied between censuses are none.
func TestHolders(t *testing.T) {
	type objects = []model.ObjectGroup
	const adam = "/usr/lib/python3/site-packages/torch/optim/adam.py:320"
	for name, c := range map[string]struct {
		objects func(census, step int64) []model.ObjectGroup
		holder  string
	}{
		"a library's": {func(c, s int64) []model.ObjectGroup {
			return objects{row("Adam.step().grads", adam, s, s*900_000)}
		}, ""},
		"a variable of the step": {func(c, s int64) []model.ObjectGroup {
			all := objects{row("__main__.names", "a.py:1", 9, 900)}
			if c == 3 {
				all = append(all, row("train().batch", "a.py:3", 900, 900*900_000))
			}
			return all
		}, ""},
		"emptied meanwhile": {func(c, s int64) []model.ObjectGroup {
			return objects{row("__main__.outputs", "a.py:3", []int64{0, 90, 10, 800}[c],
				[]int64{0, 90, 10, 800}[c]*900_000)}
		}, ""},
		"too little": {func(c, s int64) []model.ObjectGroup {
			return objects{row("__main__.log", "a.py:3", s, s*60_000)}
		}, ""},
		"many lists of libraries, more of them seen each time": {func(c, s int64) []model.ObjectGroup {
			all := row("<list>", "", 12_000+s*40, model.Null)
			all.Count = 33 + c
			return objects{all}
		}, ""},
		"the program's": {func(c, s int64) []model.ObjectGroup {
			return objects{row("Adam.step().grads", adam, s, s*900_000), row("__main__.kept", "a.py:3", s, s*500_000)}
		}, "__main__.kept"},
		"an installed program's": {func(c, s int64) []model.ObjectGroup {
			return objects{row("train().kept", "/usr/lib/python3/site-packages/trainer/loop.py:9", s, s*900_000)}
		}, "train().kept"},
	} {
		if f := first(t, leaky(c.objects)); f.Holder != c.holder {
			t.Errorf("%s: held by %q, want %q", name, f.Holder, c.holder)
		}
	}
}

// TestClearedOnce: a list that somebody emptied once, and that grows again as before, is the holder; one that is
// emptied time and again is not.
func TestClearedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		cleared []int64 // steps
		holder  string
	}{
		"once":       {[]int64{450}, "__main__.all_losses"},
		"each epoch": {[]int64{130, 260, 390, 520, 650, 780, 910}, ""},
	} {
		p := leaky(func(int64, int64) []model.ObjectGroup { return nil })
		for step := int64(20); step <= 1000; step += 20 {
			items := step
			for _, at := range c.cleared {
				if at <= step {
					items = step - at
				}
			}
			p.Objects = append(p.Objects, model.ObjectGroup{Evidence: Count, Type: "list", Census: 1, Step: step,
				Holder: "__main__.all_losses", Count: 1, Length: items, Bytes: model.Null, Site: "a.py:3",
				Detail: "of torch.Tensor"})
		}
		if f := first(t, p); f.Holder != c.holder {
			t.Errorf("%s: held by %q, want %q", name, f.Holder, c.holder)
		}
	}
}

// TestGraphsThatTheLastCensusMissed: it had no time to measure any, one before had.
func TestGraphsThatTheLastCensusMissed(t *testing.T) {
	for name, c := range map[string]struct {
		graphs int64
		at     int
		class  Class
	}{
		"of all items, earlier": {90, 1, AutogradGraph},
		"of one, earlier":       {1, 1, RetainedTensors},
		"none":                  {0, 1, RetainedTensors},
	} {
		f := first(t, leaky(func(census, s int64) []model.ObjectGroup {
			all := []model.ObjectGroup{{Evidence: "container", Type: "list", Holder: "__main__.features", Count: 1,
				Length: s, Bytes: s * 1_000_000, Site: "a.py:3", Detail: "of torch.Tensor"}}
			if int(census) == c.at && c.graphs > 0 {
				all = append(all, model.ObjectGroup{Evidence: "graph", Type: "torch.Tensor", Count: c.graphs,
					Length: 4 * c.graphs, Bytes: model.Null, Holder: "__main__.features[*]"})
			}
			return all
		}))
		if f.Holder != "__main__.features" || f.Class != c.class {
			t.Errorf("%s: %s, held by %q, want %s", name, f.Class, f.Holder, c.class)
		}
	}
}

// TestOneCensus: a short run has one whole census, and counts. A list of losses keeps their graphs, whose bytes nobody
// sees: it is not a list of whatever size that is written now and then. And data that were loaded before the training
// are not taken for growth because they happen to have its size.
func TestOneCensus(t *testing.T) {
	count := func(holder string, census, step, length int64) model.ObjectGroup {
		return model.ObjectGroup{Evidence: Count, Type: "list", Holder: holder, Count: 1, Length: length,
			Bytes: model.Null, Census: census, Step: step, Detail: "of torch.Tensor"}
	}
	for name, c := range map[string]struct {
		objects func(s int64) []model.ObjectGroup
		counts  func(step int64) []model.ObjectGroup
		tensors []model.TensorGroup
		holder  string
	}{
		"graphs": {
			objects: func(s int64) []model.ObjectGroup {
				return []model.ObjectGroup{
					{Evidence: "container", Type: "list", Holder: "__main__.losses", Count: 1, Length: s, Bytes: 64 * s,
						Site: "a.py:3", Detail: "of torch.Tensor"},
					{Evidence: "graph", Type: "torch.Tensor", Holder: "__main__.losses[*]", Count: s, Length: 19 * s,
						Bytes: model.Null, Site: "a.py:3"}}
			},
			counts: func(step int64) []model.ObjectGroup {
				own := count("__main__.losses", 1, step, step)
				own.Site, own.Bytes = "a.py:3", 64*step
				log := count("__main__.log", 1, step, step/50)
				log.Detail = ""
				return []model.ObjectGroup{own, log}
			},
			holder: "__main__.losses",
		},
		"data": {
			objects: func(s int64) []model.ObjectGroup {
				return []model.ObjectGroup{
					{Evidence: "container", Type: "list", Holder: "__main__.loader", Count: 1, Length: 50,
						Bytes: s * 1_000_000, Site: "a.py:9", Detail: "of builtins.tuple"},
					{Evidence: "graph", Type: "torch.Tensor", Holder: "__main__.meter.sum", Count: 1, Length: s + 9,
						Bytes: model.Null, Site: "a.py:3"}}
			},
			counts: func(step int64) []model.ObjectGroup {
				return []model.ObjectGroup{count("__main__.loader", 1, step, 50)}
			},
			tensors: []model.TensorGroup{{Holder: "__main__.loader[*][*]", Role: "tensor", Device: "cpu", Count: 100,
				Bytes: 300 * 1_000_000, Site: "a.py:9"}},
			holder: "__main__.meter.sum",
		},
	} {
		const at = 300
		p := Process{PID: 7, Rank: -1, Heap: growing(1200, 1_000_000)}
		for _, o := range c.objects(at) {
			o.Census, o.Step = 1, at
			p.Objects = append(p.Objects, o)
		}
		for _, x := range c.tensors {
			x.Census, x.Step = 1, at
			p.Tensors = append(p.Tensors, x)
		}
		for step := int64(at + 100); step < 1200; step += 100 {
			p.Objects = append(p.Objects, c.counts(step)...)
		}
		p.Objects = append(p.Objects, model.ObjectGroup{Evidence: "container", Type: "dict", Holder: loggers, Count: 1,
			Length: 234, Bytes: model.Null, Census: 2, Step: 1200, Site: "<logging>:1"}) // at its end, interrupted
		if f := first(t, p); f.Holder != c.holder || f.Class != AutogradGraph || f.Site != "a.py:3" {
			t.Errorf("%s: %s, held by %q at %q", name, f.Class, f.Holder, f.Site)
		}
	}
}

// TestTooSlowToMatter: growth of a page a step and less, or whose limit is beyond any run, is no leak; the same at a
// pace that fills the memory is one.
func TestTooSlowToMatter(t *testing.T) {
	mapped := func(rate, pace float64) Process {
		g := growing(3000, rate)
		return Process{PID: 7, Rank: -1, Pace: pace, Heap: growing(3000, 0), Anon: growing(3000, 0), Mapped: g,
			Dirty: g}
	}
	for name, c := range map[string]struct {
		p    Process
		want Verdict
	}{
		"file pages by the way":  {mapped(1260, 0.05), Healthy},
		"file pages, written to": {mapped(40_000, 0.05), Leak},
		"file pages, read": {Process{PID: 7, Rank: -1, Pace: 0.05, Heap: growing(3000, 0), Anon: growing(3000, 0),
			Mapped: growing(3000, 40_000), Dirty: growing(3000, 0)}, Healthy},
		"heap, 17 days": {Process{PID: 7, Rank: -1, Pace: 0.05, Heap: growing(3000, 1260),
			Anon: growing(3000, 1260)}, Healthy},
		"heap, 16 hours": {Process{PID: 7, Rank: -1, Pace: 0.002, Heap: growing(3000, 1260),
			Anon: growing(3000, 1260)}, Leak},
		"heap, 60 days": {Process{PID: 7, Rank: -1, Pace: 60, Heap: growing(3000, 500_000),
			Anon: growing(3000, 500_000)}, Healthy},
	} {
		r := Run(Input{Steps: 3000, Processes: []Process{c.p}, Host: Limit{Name: "host 64 GiB", Bytes: 64 << 30,
			Used: 30 << 30}})
		if r.Verdict != c.want {
			t.Errorf("%s: %s, %s", name, r.Verdict, r.Line())
		}
		for _, f := range r.Findings {
			if f.Verdict == Healthy && (f.Holder != "" || f.Limit != "") {
				t.Errorf("%s: healthy, and held by %q, limit %q", name, f.Holder, f.Limit)
			}
		}
	}
}

// TestAllRanksFillOneLimit: ranks that leak share the host, so that its end comes as many times sooner.
func TestAllRanksFillOneLimit(t *testing.T) {
	in := fourRanks()
	alone := Run(in).Findings[0].Seconds
	for i := range in.Processes {
		in.Processes[i].Heap = growing(1000, 1e6)
	}
	if got := Run(in).Findings[0].Seconds; alone < 100 || got < alone/4*0.98 || got > alone/4*1.02 {
		t.Errorf("one rank %.0f s, four %.0f s", alone, got)
	}
}

// TestHonestFigures: no chance below what the tails of the noise are known for, no certainty, no growth of 0 B that
// would show.
func TestHonestFigures(t *testing.T) {
	line := Series{}
	for i := range 2000 {
		line.Steps, line.Bytes = append(line.Steps, float64(i)), append(line.Bytes, 1e9+1e6*float64(i))
	}
	r := Run(Input{Steps: 2000, Processes: []Process{{PID: 7, Rank: -1, Pace: 0.1, Heap: line, Anon: line}}})
	if f := r.Findings[0]; f.P < 1e-12 || r.Confidence >= 1 {
		t.Errorf("p %g, confidence %g", f.P, r.Confidence)
	}
	for i := range line.Bytes {
		line.Bytes[i] = 3e9
	}
	r = Run(Input{Steps: 2000, Processes: []Process{{PID: 7, Rank: -1, Pace: 0.1, Heap: line, Anon: line}}})
	if s := r.Findings[0].Sound(); strings.Contains(s, "0 B/step") || !strings.Contains(s, "would show") {
		t.Errorf("healthy: %s", s)
	}
}
